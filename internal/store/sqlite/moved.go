package sqlite

import (
	"errors"
	"io/fs"
	"os"
)

// What has become of the file. A process that has a file open goes on with it, whatever becomes of its name, while others make another
// one and work on that. So nothing is read and nothing is written any more, until the name leads to the open file again.
var (
	errDeleted = errors.New("the file was deleted or moved away, and this process has the old one open: " +
		"move it back; for another one, start the process again")
	errReplaced = errors.New("another file has taken its place, and this process has the old one open: " +
		"start the process again to work on the other; to keep the old one, move that back")
)

// identify remembers which file is open. It was opened just now by its name.
func (s *Store) identify() error {
	info, err := os.Stat(s.path)
	s.file = info
	return err
}

// look looks whether the name of the file still leads to the one that is open. That is a system call: heartbeats and pings make it, and all
// other calls go by what these have found.
func (s *Store) look() error {
	var found error
	switch info, err := os.Stat(s.path); {
	case errors.Is(err, fs.ErrNotExist):
		found = errDeleted
	case err == nil && !os.SameFile(info, s.file):
		found = errReplaced
	}
	var before error
	if p := s.moved.Swap(&found); p != nil {
		before = *p
	}
	switch {
	case found != nil && found != before: //nolint:errorlint // the very same
		s.log.Error("the store is not usable: nothing is read or written", "store", s.path, "err", found)
		s.read.SetMaxIdleConns(-1) // some may have opened the other file since
		s.read.SetMaxIdleConns(readers)
	case found == nil && before != nil:
		s.log.Warn("the store is usable again: its file is where it was", "store", s.path)
	}
	return found
}

// unmoved returns what the last look found.
func (s *Store) unmoved() error {
	if p := s.moved.Load(); p != nil {
		return *p
	}
	return nil
}
