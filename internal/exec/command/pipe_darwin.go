package command

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// pipe makes a pipe that no process inherits unless it is given to it.
func pipe() (r, w int, err error) {
	syscall.ForkLock.RLock() // a process that starts between the two calls would inherit it
	defer syscall.ForkLock.RUnlock()
	var ends [2]int
	if err := unix.Pipe(ends[:]); err != nil {
		return 0, 0, err
	}
	unix.CloseOnExec(ends[0])
	unix.CloseOnExec(ends[1])
	return ends[0], ends[1], nil
}
