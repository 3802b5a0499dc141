package command

import "golang.org/x/sys/unix"

// unread is how many bytes stand in a pipe, by either of its ends; ok is false where that cannot be told. The kernel keeps
// them while one of the ends is open.
func unread(fd int) (n int, ok bool) {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	return n, err == nil
}
