package command

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// keepDescriptors marks every open descriptor but the standard streams as not to be inherited. Go does so for those
// that it opens; those that the agent itself inherited (a supervisor's sockets, a shell's pipes) are marked here.
func keepDescriptors() {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // no such directory: nothing that could be done
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}
