// Package rig is what contenders are measured with: a Postgres, a server for POSTs, processes, and what they use.
package rig

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ticks is how many clock ticks a second of CPU has in /proc: USER_HZ, 100 on every Linux that Go runs on (proc(5)).
const ticks = 100

// TreeCPU is how many seconds of CPU a process and its children have used, those that have ended included.
func TreeCPU(pid int) (float64, error) {
	n, err := processTicks(pid)
	if err != nil {
		return 0, err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, fmt.Errorf("find the children of process %d: %w", pid, err)
	}
	for child := range strings.FieldsSeq(string(children)) {
		id, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		more, err := processTicks(id)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has just ended; its share is its parent's from now on
		}
		if err != nil {
			return 0, err
		}
		n += more
	}
	return float64(n) / ticks, nil
}

// processTicks adds up utime, stime, cutime and cstime of a process.
func processTicks(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything: what is looked for stands behind the last of them.
	_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')')+1:]), " ")
	fields := strings.Fields(rest)
	const utime, cstime = 11, 14 // counted from the state, the third field of all
	if len(fields) <= cstime {
		return 0, fmt.Errorf("read /proc/%d/stat: too short", pid)
	}
	var n int64
	for _, f := range fields[utime : cstime+1] {
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
		}
		n += v
	}
	return n, nil
}

// BusyCPU is how many seconds of CPU everything on the machine has used.
func BusyCPU() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	// cpu user nice system idle iowait irq softirq steal (proc(5)); what was stolen was not there to be used.
	const user, idle, iowait, softirq = 1, 4, 5, 7
	if len(fields) <= softirq {
		return 0, errors.New("read /proc/stat: its first line is too short")
	}
	var n int64
	for i := user; i <= softirq; i++ {
		if i == idle || i == iowait {
			continue
		}
		v, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read /proc/stat: %w", err)
		}
		n += v
	}
	return float64(n) / ticks, nil
}
