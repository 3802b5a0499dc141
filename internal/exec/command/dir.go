package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/removal"
)

// privateDir is where a command leaves its result. Only its user can enter it. What stands in it is the command's
// doing and is believed in nothing: no link is followed, and only a plain file of the command's own user is read.
type privateDir struct {
	path string
	fd   int // the directory itself, whatever its path leads to by now; not an *os.File, which costs a call at each use
	is   identity
	uid  uint32 // whose it is, and whose the result must be
	uses int    // attempts that have had it
	bare bool   // result found nothing in it
}

// makeDir makes a directory below parent for the user of the command; nil: the agent's own.
func makeDir(parent string, c *syscall.Credential) (*privateDir, error) {
	path, err := os.MkdirTemp(parent, "") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("make a private directory: %w", err)
	}
	d := &privateDir{path: path, uid: uidOf(c)}
	if c != nil {
		err = os.Chown(path, int(c.Uid), int(c.Gid))
	}
	if err == nil {
		d.fd, err = unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	var s unix.Stat_t
	if err == nil {
		err = unix.Fstat(d.fd, &s)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a private directory: %w", err), os.Remove(path))
	}
	d.is = newIdentity(&s)
	return d, nil
}

func uidOf(c *syscall.Credential) uint32 {
	if c != nil {
		return c.Uid
	}
	return uint32(os.Geteuid())
}

// resultName is another for each attempt: what an earlier one left running writes to a name that is not read.
func (d *privateDir) resultName() string { return "result-" + strconv.Itoa(d.uses) }

func (d *privateDir) resultPath() string { return filepath.Join(d.path, d.resultName()) }

// result reads what the command wrote: at most readResult bytes of it, and how long it is. Where there is nothing fit to
// be read, note may say why.
func (d *privateDir) result() (body []byte, size int64, note string) {
	if d.bare = d.empty(); d.bare {
		return nil, 0, ""
	}
	fd, err := unix.Openat(d.fd, d.resultName(), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil, 0, ""
	}
	if err != nil {
		return nil, 0, "result not kept: " + err.Error()
	}
	file := os.NewFile(uintptr(fd), d.resultName())
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, 0, "result not kept: " + err.Error()
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || !ok || owner.Uid != d.uid {
		return nil, 0, "result not kept: not a plain file of the command's user"
	}
	body, err = io.ReadAll(io.LimitReader(file, readResult))
	if err != nil {
		return nil, 0, "result not kept: " + err.Error()
	}
	return body, max(info.Size(), int64(len(body))), ""
}

// remove removes the directory and what is in it, as far as that is done soon (removal.ErrStopped).
func (d *privateDir) remove() error {
	_ = unix.Close(d.fd)
	return removal.All(d.path, lateAfter(removeSoon))
}

// clean removes the result and reports whether the directory is empty now.
func (d *privateDir) clean() bool {
	if d.bare { // most commands leave no result, and one look is enough
		return true
	}
	_ = unix.Unlinkat(d.fd, d.resultName(), 0)
	return d.empty()
}

// empty reports whether nothing is in the directory. "No" may mean that this cannot be determined. The system is asked without
// os.File in between: this happens twice in each attempt, and costs half that way.
func (d *privateDir) empty() bool {
	if _, err := unix.Seek(d.fd, 0, io.SeekStart); err != nil {
		return false
	}
	var entries [1024]byte
	for {
		n, err := unix.ReadDirent(d.fd, entries[:])
		if err != nil || n == 0 {
			return err == nil
		}
		if _, _, names := unix.ParseDirent(entries[:n], 1, nil); len(names) > 0 { // it leaves out "." and ".."
			return false
		}
	}
}

// intact reports whether the path still leads to the directory, and only its user has access.
func (d *privateDir) intact() bool {
	var s unix.Stat_t
	return unix.Lstat(d.path, &s) == nil && newIdentity(&s) == d.is
}

// identity is what of a directory must stay as it was made. While it is open no other gets its number.
type identity struct {
	device, inode uint64
	mode          uint32 // type and permissions
	uid           uint32
}

func newIdentity(s *unix.Stat_t) identity {
	return identity{device: uint64(s.Dev), inode: s.Ino, mode: uint32(s.Mode), uid: s.Uid} //nolint:unconvert // they differ among systems
}
