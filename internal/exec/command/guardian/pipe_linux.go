package guardian

import (
	"os"

	"golang.org/x/sys/unix"
)

// selfPath leads to the running program, also where its file has been replaced meanwhile.
const selfPath = "/proc/self/exe"

// pipeSize holds what 10,000 attempts start and end while the guardian does not read (pipe(7)).
const pipeSize = 1 << 20

// widen makes the pipe larger, where that is allowed.
func widen(pipe *os.File) {
	if raw, err := pipe.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
	}
}
