package command

import "golang.org/x/sys/unix"

// datagramSocket makes a unix socket that no process inherits and no call waits for.
func datagramSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
}

// memoryDir is a directory for all users' files in memory (shm_overview(7)); "" where there is none.
func memoryDir() string {
	const dir = "/dev/shm"
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		return ""
	}
	return dir
}
