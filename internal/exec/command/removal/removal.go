// Package removal removes directories that others have filled: however deep and wide they are, it holds three
// descriptors and little memory, follows no link, and stops on request.
package removal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrStopped says that there is more to remove, and that it was to stop.
var ErrStopped = errors.New("it takes too long, and is not complete")

// All removes what is at the path, and all below it. Nothing being there is no error. stop is asked before each entry,
// and ends it with ErrStopped. An error says what could not be removed in a few words, whatever names stand there.
//
// It never goes deeper than two levels: a directory that is not empty is moved up, to the first level, where its turn
// comes later (os.RemoveAll holds a descriptor for each level, and os.Remove takes no path of that length).
func All(path string, stop func() bool) error {
	err := os.Remove(path)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	r := remover{stop: stop, prefix: ".removed-" + rand.Text()[:10] + "-"}
	parent, err := open(unix.AT_FDCWD, filepath.Dir(path))
	if err != nil {
		return failed("open the directory above", err)
	}
	defer func() { _ = unix.Close(parent) }()
	if err := r.clear(parent, filepath.Base(path)); err != nil {
		return err
	}
	if err := unix.Unlinkat(parent, filepath.Base(path), unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return failed("remove the directory", err)
	}
	return nil
}

// failed is an error without a path, which may be as long as the tree is deep.
func failed(what string, err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return fmt.Errorf("%s: %w", what, errno)
	}
	return errors.New(what)
}

type remover struct {
	stop   func() bool
	prefix string // of the names that directories get which are moved up
	moved  int
}

// open opens a directory, and no link to one.
func open(dir int, name string) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// enter opens a directory that is to be emptied, and gives itself leave to where its owner has taken that away. Root needs
// none, and gives none: what stands there may be another's link by now, and that would be followed.
func enter(dir int, name string) (int, error) {
	fd, err := open(dir, name)
	if errors.Is(err, unix.EACCES) && allow(dir, name) {
		fd, err = open(dir, name)
	}
	if err == nil && os.Geteuid() != 0 {
		_ = unix.Fchmod(fd, 0o700) // an error: it is another's, and what can be removed without is
	}
	return fd, err
}

func allow(dir int, name string) bool {
	return os.Geteuid() != 0 && unix.Fchmodat(dir, name, 0o700, 0) == nil
}

// clear empties the directory of that name, a round at a time, until nothing is in it or a round got nowhere.
func (r *remover) clear(parent int, name string) error {
	top, err := enter(parent, name)
	if err != nil {
		return failed("open the directory", err)
	}
	defer func() { _ = unix.Close(top) }()
	for {
		n, done, err := r.each(top, func(name string) error { return r.remove(top, name) })
		switch {
		case errors.Is(err, ErrStopped) || n == 0:
			return err
		case done == 0:
			return err
		}
	}
}

// each calls do with each entry of the first that a directory has, and returns how many those were, and for how many it was nil. The
// error is the last one.
func (r *remover) each(dir int, do func(name string) error) (n, done int, err error) {
	if _, err := unix.Seek(dir, 0, 0); err != nil {
		return 0, 0, failed("read a directory", err)
	}
	buffer := make([]byte, 16<<10)
	for n == 0 {
		size, rerr := unix.ReadDirent(dir, buffer)
		if rerr != nil {
			return n, done, failed("read a directory", rerr)
		}
		if size == 0 {
			return n, done, err
		}
		_, _, names := unix.ParseDirent(buffer[:size], -1, nil) // it leaves out "." and ".."
		for _, name := range names {
			if r.stop() {
				return n, done, ErrStopped
			}
			n++
			if e := do(name); e != nil {
				err = e
			} else {
				done++
			}
		}
	}
	return n, done, err
}

// remove removes an entry of the first level. nil: it is gone, or less is in it.
func (r *remover) remove(top int, name string) error {
	if unlink(top, name) == nil {
		return nil
	}
	sub, err := enter(top, name)
	if err != nil {
		return failed("open a directory", err)
	}
	defer func() { _ = unix.Close(sub) }()
	_, done, err := r.each(sub, func(name string) error {
		if unlink(sub, name) == nil {
			return nil
		}
		return r.moveUp(sub, name, top)
	})
	if errors.Is(err, ErrStopped) {
		return err
	}
	if unix.Unlinkat(top, name, unix.AT_REMOVEDIR) == nil || done > 0 {
		return nil
	}
	return err
}

// unlink removes what is no directory, or an empty one.
func unlink(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// moveUp moves a directory to the first level.
func (r *remover) moveUp(from int, name string, top int) error {
	r.moved++
	to := r.prefix + strconv.Itoa(r.moved)
	err := unix.Renameat(from, name, top, to)
	if errors.Is(err, unix.EACCES) && allow(from, name) {
		err = unix.Renameat(from, name, top, to)
	}
	if err != nil {
		return failed("move a directory", err)
	}
	return nil
}
