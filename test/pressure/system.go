package pressure

import (
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// system is where the kernel counts the time that something waits for a processor.
type system struct{ proc, cgroups string }

// waits are the totals that there are, by the files that count them.
//
// proc/pressure/cpu counts what waits on the whole machine, throttled by a quota or not, but as a mean over the processors
// that are not idle: the wait of one container on a large machine hardly counts there, and some kernels have no such file.
// The cgroup's own cpu.pressure has no such mean over others; it takes cgroup v2. cpu.stat counts what a quota throttles,
// as a sum over processors: a share of that for each is the least that it can have been.
func (s system) waits() iter.Seq2[string, time.Duration] {
	return func(yield func(string, time.Duration) bool) {
		own, above := s.groups()
		for _, file := range []string{filepath.Join(s.proc, "pressure", "cpu"), filepath.Join(own, "cpu.pressure")} {
			if us, ok := number(file, "some", "total="); ok && !yield(file, time.Duration(us)*time.Microsecond) {
				return
			}
		}
		for _, dir := range above {
			file, processors := filepath.Join(dir, "cpu.stat"), time.Duration(runtime.GOMAXPROCS(0))
			if us, ok := number(file, "throttled_usec", ""); ok && !yield(file, time.Duration(us)*time.Microsecond/processors) {
				return
			}
			if ns, ok := number(file, "throttled_time", ""); ok && !yield(file, time.Duration(ns)/processors) { // version 1
				return
			}
		}
	}
}

// groups returns the directory of this process's cgroup of version 2, and those of all its cgroups that may have a quota.
func (s system) groups() (own string, all []string) {
	text, err := os.ReadFile(filepath.Join(s.proc, "self", "cgroup"))
	if err != nil {
		return "", nil
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // 0::/path, or 4:cpu,cpuacct:/path
		if len(parts) != 3 {
			continue
		}
		v2 := parts[0] == "0" && parts[1] == ""
		bases := []string{filepath.Join(s.cgroups, parts[1])}
		if v2 {
			bases = []string{s.cgroups, filepath.Join(s.cgroups, "unified")} // the second beside version 1
		} else if !strings.Contains(","+parts[1]+",", ",cpu,") {
			continue
		}
		// A container may see its group as the root, whatever its path says.
		for _, base := range bases {
			for dir := filepath.Join(base, filepath.Clean("/"+parts[2])); len(dir) >= len(base); dir = filepath.Dir(dir) {
				if _, err := os.Stat(filepath.Join(dir, "cpu.stat")); err != nil {
					continue
				}
				all = append(all, dir)
				if v2 && own == "" {
					own = dir
				}
			}
		}
	}
	return own, all
}

// number reads the number after a mark in the line of a file that begins with a word.
func number(file, word, mark string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, word+" ")
		if !ok {
			continue
		}
		// some avg10=0.00 avg60=0.00 avg300=0.00 total=12345, or throttled_usec 12345
		_, digits, _ := strings.Cut(rest, mark)
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		return n, err == nil
	}
	return 0, false
}
