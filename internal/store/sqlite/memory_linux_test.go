package sqlite

import "golang.org/x/sys/unix"

// memoryDir returns a directory whose files are in memory, with a gigabyte to spare; "" where there is none.
func memoryDir() string {
	const dir, room = "/dev/shm", 1 << 30
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC || fs.Bavail*uint64(fs.Bsize) < room || unix.Access(dir, unix.W_OK) != nil {
		return ""
	}
	return dir
}
