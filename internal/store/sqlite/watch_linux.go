package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// watchRest is the least time between two notes of a watch: a transaction that writes many pages makes few.
const watchRest = time.Millisecond

// watch notes that a connection of any process writes to the log of a file (https://sqlite.org/wal.html). It does not open the log.
// A commit is visible only after its write, once the log is synchronized.
type watch struct {
	events *os.File
	own    func() bool   // whether this process writes, so that no other does
	wrote  chan struct{} // has an element after a write of another
	ended  chan struct{}
	stop   chan struct{}
}

// watchLog watches the log of a database file. It fails where the system allows no more watches, and where there is no log.
func watchLog(path string, own func() bool) (*watch, error) {
	file, err := filepath.EvalSymlinks(path) // as SQLite does, to name the log
	if err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	w := &watch{
		events: os.NewFile(uintptr(fd), "inotify"), own: own,
		wrote: make(chan struct{}, 1), ended: make(chan struct{}), stop: make(chan struct{}),
	}
	if _, err := unix.InotifyAddWatch(fd, file+"-wal", unix.IN_MODIFY); err != nil {
		return nil, errors.Join(fmt.Errorf("watch %s-wal: %w", file, err), w.events.Close())
	}
	go w.run()
	return w, nil
}

// run notes writes until the watch is closed. After the log is deleted, which its last connection does, there are none.
func (w *watch) run() {
	defer close(w.ended)
	buffer := make([]byte, 64*unix.SizeofInotifyEvent)
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		if _, err := w.events.Read(buffer); err != nil {
			return
		}
		if !w.own() {
			select {
			case w.wrote <- struct{}{}:
			default:
			}
		}
		rest.Reset(watchRest)
		select {
		case <-w.stop:
			return
		case <-rest.C:
		}
	}
}

// close ends the watch.
func (w *watch) close() error {
	close(w.stop)
	err := w.events.Close()
	<-w.ended
	return err
}
