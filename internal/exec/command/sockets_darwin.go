package command

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// datagramSocket makes a unix socket that no process inherits and no call waits for.
func datagramSocket() (int, error) {
	syscall.ForkLock.RLock() // a process that starts between the two calls would inherit it
	defer syscall.ForkLock.RUnlock()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return -1, err
	}
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// memoryDir is a directory for all users' files in memory; "": there is none.
func memoryDir() string { return "" }
