package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/command/removal"
)

// errLongPath says that a socket's path would not fit into an address (unix(7)).
var errLongPath = errors.New("the path of a notify socket would be too long: set TMPDIR to a shorter path")

// maxSocketPath is how long a path fits into an address of every system: 103 bytes and a NUL on macOS.
const maxSocketPath = 103

// sockets makes notify sockets. Each attempt has one of its own under a name that there never was before: a process that is left of an
// earlier attempt and knows its name, or is connected to it, reaches no reader. They stand in directories of the
// agent's, so that no other user can put anything in their place.
type sockets struct {
	parent string // the directory of all; it is made when it is needed
	last   atomic.Uint64
}

// socketParent is a name for the directory of the sockets: in memory where that can be found out, because a name in a file
// system that writes to a disk costs twice as much, and because the path is short.
func socketParent() string {
	if dir := memoryDir(); dir != "" && unix.Access(dir, unix.W_OK) == nil {
		return newParent(dir)
	}
	return newParent(os.TempDir())
}

// open makes the socket of an attempt, for a command of that user; nil: the agent's own.
func (s *sockets) open(c *syscall.Credential) (fd int, path string, err error) {
	sub, mode := "/own", os.FileMode(0o700)
	if c != nil {
		sub, mode = "/all", 0o711 // they pass through, and each socket is its user's alone
	}
	path = s.parent + sub + "/" + strconv.FormatUint(s.last.Add(1), 10)
	if len(path) > maxSocketPath {
		return -1, "", errLongPath
	}
	if fd, err = datagramSocket(); err != nil {
		return -1, "", fmt.Errorf("make a notify socket: %w", err)
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if errors.Is(err, unix.ENOENT) { // the first one, or the directory has been cleaned up
		if err = s.make(s.parent+sub, mode); err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
		}
	}
	if err == nil && c != nil {
		err = s.hand(path, s.parent+sub, c)
	}
	if err != nil {
		return -1, "", errors.Join(fmt.Errorf("make a notify socket: %w", err), unix.Close(fd))
	}
	return fd, path, nil
}

// hand makes a socket its user's. The directories are the agent's, so no other user has put anything in the socket's place.
func (s *sockets) hand(path, dir string, c *syscall.Credential) error {
	for _, d := range []string{s.parent, dir} {
		if !guardian.IsOwnDir(d) {
			return fmt.Errorf("%s belongs to another user", d)
		}
	}
	return errors.Join(os.Chmod(path, 0o600), os.Lchown(path, int(c.Uid), int(c.Gid)))
}

// make makes a directory and before it the parent. Several may do so at once.
func (s *sockets) make(dir string, mode os.FileMode) error {
	if err := makeOwn(s.parent, 0o711); err != nil {
		return err
	}
	return makeOwn(dir, mode)
}

// makeOwn makes a directory of the agent's, if it is not there.
func makeOwn(dir string, mode os.FileMode) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if !guardian.IsOwnDir(dir) { // once it has been there, its name can be known
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return os.Chmod(dir, mode) // whatever the umask says
}

// close removes the directories. No attempt runs.
func (s *sockets) close() error {
	if !filepath.IsAbs(s.parent) {
		return nil
	}
	return removal.All(s.parent, lateAfter(removeSoon))
}
