package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// apply gives an existing file to the group. What is looked at and what is changed is one file: others may write in the
// directory. A descriptor of O_PATH takes no part in locks, so to close it ends none of SQLite's.
func (a access) apply(path string) (err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at it: %w", err)
	}
	if a.done(&st) {
		return nil
	}
	if err := ours(&st); err != nil {
		return err
	}
	if err := unix.Fchownat(fd, "", -1, a.gid, unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("change its group: %w", err)
	}
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), a.mode())
}
