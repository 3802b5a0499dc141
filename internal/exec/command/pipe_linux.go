package command

import "golang.org/x/sys/unix"

// pipe makes a pipe that no process inherits unless it is given to it.
func pipe() (r, w int, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return 0, 0, err
	}
	return ends[0], ends[1], nil
}
