//go:build !linux

package sqlite

import (
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// apply gives an existing file to the group. No symbolic link is followed.
func (a access) apply(path string) error {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if a.done(&st) {
		return nil
	}
	if err := ours(&st); err != nil {
		return err
	}
	if err := unix.Fchownat(unix.AT_FDCWD, path, -1, a.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("change its group: %w", err)
	}
	if err := unix.Fchmodat(unix.AT_FDCWD, path, uint32(a.mode()), unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("change its mode: %w", err)
	}
	return nil
}
