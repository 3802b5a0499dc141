package sqlite

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// roomOf returns how many bytes the file system of a file has, and how many of them this user may still use; 0 where it does not say.
func roomOf(path string) (free, size uint64) {
	var fs unix.Statfs_t
	if unix.Statfs(filepath.Dir(path), &fs) != nil {
		return 0, 0
	}
	block := uint64(fs.Bsize)
	return fs.Bavail * block, fs.Blocks * block
}
