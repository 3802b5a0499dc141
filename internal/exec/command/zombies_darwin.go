package command

import "golang.org/x/sys/unix"

// sZomb is SZOMB of <sys/proc.h>.
const sZomb = 5

// onlyZombies tells whether all that is left of a group has died already and waits for its parent to notice.
func onlyZombies(pgid int) bool {
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
