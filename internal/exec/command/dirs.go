package command

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/command/removal"
)

// maxFree is how many private directories are kept for a user between attempts.
const maxFree = 256

// dirs hands out private directories and keeps those that an attempt left as it found them: to make and remove one for
// each costs more than the spawn itself where the file system writes to a disk.
//
// All of them stand in one directory of the agent's, which the guardian process removes when the agent cannot.
type dirs struct {
	parent string                       // it is made when it is needed
	stays  func(path string, err error) // called with what cannot be removed, if it is not nil

	mu       sync.Mutex
	free     map[uint32][]*privateDir
	out      int // handed out
	closed   bool
	mess     []string // directories that take long to remove
	removing bool     // a removal is under way
	removals sync.WaitGroup
}

// newParent is a name for a directory that cannot be guessed before it is there.
func newParent(in string) string {
	temp, err := filepath.Abs(in)
	if err != nil {
		temp = in // the working directory is gone: to make a directory there will fail, too
	}
	return filepath.Join(temp, guardian.DirPrefix+rand.Text()[:10])
}

// make makes a directory, and its parent where that is not there (any more: some clean up such places). Everybody may
// pass through the parent, and only the agent look into it.
func (s *dirs) make(c *syscall.Credential) (*privateDir, error) {
	if !guardian.IsOwnDir(s.parent) {
		if err := os.Mkdir(s.parent, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make a private directory: %w", err)
		}
		if !guardian.IsOwnDir(s.parent) { // once it has been there, its name can be known
			return nil, fmt.Errorf("make a private directory: %s belongs to another user", s.parent)
		}
		if err := os.Chmod(s.parent, 0o711); err != nil { //nolint:gosec // commands of other users pass through it
			return nil, fmt.Errorf("make a private directory: %w", err)
		}
	}
	return makeDir(s.parent, c)
}

// take gives a directory for the user of the command; nil: the agent's own.
func (s *dirs) take(c *syscall.Credential) (*privateDir, error) {
	d, err := s.find(c)
	if err == nil {
		s.mu.Lock()
		s.out++
		s.mu.Unlock()
	}
	return d, err
}

func (s *dirs) find(c *syscall.Credential) (*privateDir, error) {
	for d := s.pop(uidOf(c)); d != nil; d = s.pop(uidOf(c)) {
		if d.intact() {
			d.uses++
			d.bare = false
			return d, nil
		}
		if err := s.remove(d); err != nil { // an attempt moved it away, or let others in
			return nil, err
		}
	}
	return s.make(c)
}

func (s *dirs) pop(uid uint32) *privateDir {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := s.free[uid]
	if len(free) == 0 {
		return nil
	}
	d := free[len(free)-1]
	s.free[uid] = free[:len(free)-1]
	return d
}

// give returns a directory to the pool, and removes one that cannot be used again.
func (s *dirs) give(d *privateDir) error {
	if d.clean() && s.push(d) {
		return nil
	}
	err := s.remove(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out--
	if s.closed && s.out == 0 {
		err = errors.Join(err, removal.All(s.parent, lateAfter(removeLast)))
	}
	return err
}

func (s *dirs) push(d *privateDir) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.free[d.uid]) >= maxFree {
		return false
	}
	if s.free == nil {
		s.free = make(map[uint32][]*privateDir)
	}
	s.free[d.uid] = append(s.free[d.uid], d)
	s.out--
	return true
}

// close removes what is kept, and with the last that is returned later all the rest. What takes long is left to the
// guardian process.
func (s *dirs) close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.removals.Wait() // it stops now
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, free := range s.free {
		for _, d := range free {
			_ = unix.Close(d.fd)
		}
	}
	clear(s.free)
	if s.out > 0 {
		return nil
	}
	return removal.All(s.parent, lateAfter(removeLast))
}
