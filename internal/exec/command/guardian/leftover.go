package guardian

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/removal"
)

// DirPrefix is how the name of an agent's directory for private files begins.
const DirPrefix = "leasehold-"

// IsOwnDir reports whether a directory, and no link to one, is there and belongs to this process's user.
func IsOwnDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}

// removeFor bounds how long a guardian process that has nothing else to do removes what its agent has left.
const removeFor = 5 * time.Minute

// removeDir removes the directory of the agent's private files, if it is one. Its errors are dropped.
func removeDir(path string) {
	if filepath.IsAbs(path) && strings.HasPrefix(filepath.Base(path), DirPrefix) && IsOwnDir(path) {
		began := time.Now()
		_ = removal.All(path, func() bool { return time.Since(began) > removeFor })
	}
}
