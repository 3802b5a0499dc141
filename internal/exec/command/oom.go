package command

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"sync"
)

// oomCounter reports whether the kernel has killed something of the agent's control group because memory ran out
// since the last call. Commands run in that group too.
type oomCounter struct {
	file string // memory.events (cgroup v2) or memory.oom_control (v1); "": unknown

	mu   sync.Mutex
	last int64
}

func newOOMCounter(file string) *oomCounter {
	c := &oomCounter{file: file}
	c.last = c.read()
	return c
}

// rose reports whether there were more kills than at the last call.
func (c *oomCounter) rose() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.read()
	more := now > c.last
	c.last = now
	return more
}

// read gives the count, 0 where there is none.
func (c *oomCounter) read() int64 {
	if c.file == "" {
		return 0
	}
	text, err := os.ReadFile(c.file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// cgroupEvents finds the file that counts the agent's out-of-memory kills (cgroups(7)); "" where there is none, as
// everywhere but on Linux.
func cgroupEvents() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	lines := bufio.NewScanner(bytes.NewReader(groups))
	for lines.Scan() {
		f := strings.SplitN(lines.Text(), ":", 3) // number:controllers:path
		if len(f) != 3 {
			continue
		}
		for _, file := range []string{
			"/sys/fs/cgroup" + f[2] + "/memory.events",
			"/sys/fs/cgroup/memory" + f[2] + "/memory.oom_control",
		} {
			if f[1] != "" && f[1] != "memory" {
				continue
			}
			if _, err := os.Stat(file); err == nil {
				return file
			}
		}
	}
	return ""
}
