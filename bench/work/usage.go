package work

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Used is what a process has used so far.
type Used struct {
	Self, Children float64 // seconds of CPU
	RSS            int64   // bytes, the most
}

// Usage is what this process has used.
func Usage() Used {
	var self, children syscall.Rusage
	// Neither fails: the arguments are valid (getrusage(2)).
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children)
	cpu := func(u syscall.Rusage) float64 {
		return float64(u.Utime.Nano()+u.Stime.Nano()) / float64(time.Second)
	}
	return Used{Self: cpu(self), Children: cpu(children) + running(), RSS: peak()}
}

// running is how many seconds of CPU the children of this process have used that it has not waited for: workers, a guardian
// process.
func running() (seconds float64) {
	lists, err := filepath.Glob("/proc/self/task/*/children") // a child is listed with the thread that started it
	if err != nil {
		return 0
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended, and its children are another's
		}
		for child := range strings.FieldsSeq(string(children)) {
			seconds += usedBy(child)
		}
	}
	return seconds
}

// usedBy is the CPU, in seconds, that a process has used; 0 where it has ended.
func usedBy(pid string) float64 {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything: what is looked for stands behind the last of them.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const utime, cstime, ticks = 11, 14, 100 // counted from the state (proc(5)); ticks in a second (USER_HZ)
	if len(fields) <= cstime {
		return 0
	}
	n := 0
	for _, f := range fields[utime : cstime+1] {
		v, err := strconv.Atoi(f)
		if err != nil {
			return 0
		}
		n += v
	}
	return float64(n) / ticks
}

// peak is VmHWM of proc(5). What getrusage says begins with what the parent had when it forked.
func peak() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	number, _, _ := strings.Cut(after, "kB")
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil {
		return 0
	}
	return kilobytes << 10
}
