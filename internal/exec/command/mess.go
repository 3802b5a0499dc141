package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command/removal"
)

// What an attempt leaves in its private directory can be as much as it likes: it is removed at once if that takes a
// moment, and else beside the attempts, one directory after another.
const (
	removeSoon = 100 * time.Millisecond // an attempt's slot waits for that
	removeLast = 2 * time.Second        // the end of the agent waits for that; the guardian process goes on
	maxMess    = 1000                   // directories that wait to be removed
)

// lateAfter reports whether that long has passed since it was made.
func lateAfter(d time.Duration) func() bool {
	began := time.Now()
	return func() bool { return time.Since(began) > d }
}

// remove removes a directory, or has it removed. An error says that it stays, until the agent ends.
func (s *dirs) remove(d *privateDir) error {
	err := d.remove()
	if !errors.Is(err, removal.ErrStopped) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return err
	case len(s.mess) >= maxMess:
		return fmt.Errorf("%w: %d directories are waiting to be removed", err, maxMess)
	}
	s.mess = append(s.mess, d.path)
	if !s.removing {
		s.removing = true
		s.removals.Go(s.removeMess) // ends with the mess, or with close
	}
	return nil
}

// removeMess removes what takes long, until nothing is left of it. What it cannot remove stays until the agent ends.
func (s *dirs) removeMess() {
	for {
		s.mu.Lock()
		if len(s.mess) == 0 || s.closed {
			s.removing = false
			s.mu.Unlock()
			return
		}
		path := s.mess[0]
		s.mu.Unlock()
		if err := removal.All(path, s.isClosed); err != nil && s.stays != nil && !errors.Is(err, removal.ErrStopped) {
			s.stays(path, err)
		}
		s.mu.Lock()
		s.mess = s.mess[1:]
		s.mu.Unlock()
	}
}

func (s *dirs) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
