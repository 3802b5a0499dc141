package processes

import (
	"time"

	"golang.org/x/sys/unix"
)

// sZomb is SZOMB of <sys/proc.h>.
const sZomb = 5

// OnlyZombies reports whether all that is left of a group has died already and waits for its parent to notice.
func OnlyZombies(pgid int) bool {
	processes, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", pgid)
	if err != nil {
		return false
	}
	for i := range processes {
		if processes[i].Proc.P_stat != sZomb {
			return false
		}
	}
	return true
}

// LivingGroups are the groups in which something lives that is no zombie.
func LivingGroups() (map[int]struct{}, error) {
	processes, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	groups := make(map[int]struct{})
	for i := range processes {
		if processes[i].Proc.P_stat != sZomb {
			groups[int(processes[i].Eproc.Pgid)] = struct{}{}
		}
	}
	return groups, nil
}

// Started is not in terms of the leases' clock here.
func Started(int) (at time.Duration, ok bool) { return 0, false }
