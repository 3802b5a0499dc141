package main

import (
	"bufio"
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// memoryShare is how much of its control group's memory the agent's own heap may come to before it is collected harder; the
// rest is for what the runtime does not count, as the embedded store's buffers, and for the guardian.
const memoryShare = 0.8

// limitMemory has the garbage collector know of the control group's memory, where GOMEMLIMIT does not say otherwise. It is
// a few lines rather than a library: all there is to do is to read a number, and what libraries add is to do it at init
// and by settings of their own.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	most, found := cgroupMemory("/proc/self/cgroup", "/sys/fs/cgroup")
	if !found {
		return
	}
	limit := int64(float64(most) * memoryShare)
	debug.SetMemoryLimit(limit)
	log.Debug("memory limit taken from the control group", "group", most, "limit", limit)
}

// cgroupMemory is the least memory limit, in bytes, of the control group that self (/proc/self/cgroup) names and those
// above it, below root: version 2 (memory.max) or 1 (memory.limit_in_bytes).
func cgroupMemory(self, root string) (least int64, found bool) {
	text, err := os.ReadFile(self)
	if err != nil {
		return 0, false
	}
	least = math.MaxInt64
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		parts := strings.SplitN(lines.Text(), ":", 3) // 0::/path, or 5:memory:/path
		if len(parts) != 3 {
			continue
		}
		base, file := root, "memory.max"
		switch {
		case parts[0] == "0" && parts[1] == "":
			if _, err := os.Stat(filepath.Join(root, "unified")); err == nil {
				base = filepath.Join(root, "unified")
			}
		case strings.Contains(","+parts[1]+",", ",memory,"):
			base, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		// A container may see its group as the root, whatever its path says.
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			if n, ok := readLimit(filepath.Join(base, path, file)); ok {
				least = min(least, n)
			}
			if path == "/" {
				break
			}
		}
	}
	const unlimited = 1 << 50 // version 1 says it as a number of that kind
	return least, least < unlimited
}

// readLimit reads a file with a number of bytes; false for "max".
func readLimit(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0
}
