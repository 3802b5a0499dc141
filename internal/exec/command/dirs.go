package command

import (
	"errors"
	"sync"
	"syscall"
)

// maxFree is how many private directories are kept for a user between attempts.
const maxFree = 256

// dirs hands out private directories and keeps those that an attempt left as it found them: to make and remove one for
// each costs more than the spawn itself where the file system writes to a disk.
type dirs struct {
	mu     sync.Mutex
	free   map[uint32][]*privateDir
	closed bool
}

// take gives a directory for the user of the command; nil: the agent's own.
func (s *dirs) take(c *syscall.Credential) (*privateDir, error) {
	for d := s.pop(uidOf(c)); d != nil; d = s.pop(uidOf(c)) {
		if d.intact() {
			d.uses++
			d.bare = false
			return d, nil
		}
		if err := d.remove(); err != nil { // an attempt moved it away, or let others in
			return nil, err
		}
	}
	return makeDir(c)
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

// give takes a directory back, and removes one that cannot be used again.
func (s *dirs) give(d *privateDir) error {
	if d.clean() && s.push(d) {
		return nil
	}
	return d.remove()
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
	return true
}

// close removes what is kept. What is given back later is removed at once.
func (s *dirs) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var errs []error
	for _, free := range s.free {
		for _, d := range free {
			errs = append(errs, d.remove())
		}
	}
	clear(s.free)
	return errors.Join(errs...)
}
