package processes

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// OnlyZombies reports whether all that is left of a group has died already and waits for its parent to notice.
func OnlyZombies(pgid int) bool {
	pids, err := all()
	if err != nil {
		return false
	}
	for _, pid := range pids {
		s, err := readStat(pid)
		if err == nil && s.group == pgid && !s.dead() { // an error: it has ended
			return false
		}
	}
	return true
}

// LivingGroups are the groups in which something lives that is no zombie, found in one look at all processes.
func LivingGroups() (map[int]struct{}, error) {
	pids, err := all()
	if err != nil {
		return nil, err
	}
	groups := make(map[int]struct{})
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil && !s.dead() { // an error: it has ended
			groups[s.group] = struct{}{}
		}
	}
	return groups, nil
}

// Started is when a process started, by CLOCK_BOOTTIME, cut to 10 ms (USER_HZ); ok is false where there is none with
// that number.
func Started(pid int) (at time.Duration, ok bool) {
	s, err := readStat(pid)
	return s.started, err == nil
}

// stat is what proc_pid_stat(5) contains of a process.
type stat struct {
	state   byte
	group   int
	threads int
	started time.Duration
	cpu     time.Duration // its own, and that of children that it has waited for
}

// dead reports whether it has ended, reaped or not.
func (s *stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

const userHZ = 100 // ticks per second, the same on every architecture that Go runs on

func readStat(pid int) (s stat, err error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, err
	}
	// "pid (name) state ppid pgrp …", and the name may hold anything
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return s, fmt.Errorf("process %d: a line of %d fields", pid, len(fields))
	}
	s.state = fields[0][0]
	if s.group, err = strconv.Atoi(string(fields[2])); err != nil {
		return s, err
	}
	if s.threads, err = strconv.Atoi(string(fields[17])); err != nil {
		return s, err
	}
	for _, used := range fields[11:15] {
		ticks, err := strconv.ParseInt(string(used), 10, 64)
		if err != nil {
			return s, err
		}
		s.cpu += time.Duration(ticks) * (time.Second / userHZ)
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	s.started = time.Duration(ticks) * (time.Second / userHZ)
	return s, err
}
