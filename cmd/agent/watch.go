package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/config"
)

// watchEvery is how often files are looked at. A change is passed on once it is as old: an editor may be writing.
const watchEvery = 200 * time.Millisecond

// watch looks at the files of a configuration, those that file(…) reads as it is now among them, and sends the name of one that has
// changed, was added or is gone. stop ends that.
func watch(paths []string, inputs func() []string) (changes <-chan string, stop func()) {
	w, c, quit := newWatcher(paths, inputs), make(chan string), make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			name, changed := w.look()
			if !changed {
				continue
			}
			select {
			case <-quit:
				return
			case c <- name:
			}
		}
	})
	return c, func() {
		close(quit)
		ended.Wait()
	}
}

// watcher knows how files were.
type watcher struct {
	paths      []string
	inputs     func() []string
	told, seen map[string]string // file: what tells its contents from others
	read       []string          // inputs as they were
}

func newWatcher(paths []string, inputs func() []string) *watcher {
	w := &watcher{paths: paths, inputs: inputs, read: inputs()}
	w.told = w.stamps()
	w.seen = maps.Clone(w.told)
	return w
}

// look returns a file that is different from what was told last, and was so at the last look, too.
func (w *watcher) look() (name string, changed bool) {
	before := w.read
	w.read = w.inputs()
	now := w.stamps()
	for _, name := range w.read {
		if !slices.Contains(before, name) { // the configuration of now reads it, so it is no change
			w.told[name], w.seen[name] = now[name], now[name]
		}
	}
	for _, name := range before {
		if _, is := now[name]; !is && !slices.Contains(w.read, name) {
			delete(w.told, name)
			delete(w.seen, name)
		}
	}
	_, moves := different(w.seen, now)
	w.seen = maps.Clone(now)
	if moves {
		return "", false
	}
	if name, changed = different(w.told, now); changed {
		w.told = now
	}
	return name, changed
}

// different names a file that is not in both, or not the same.
func different(before, now map[string]string) (name string, is bool) {
	for name, stamp := range now {
		if was, ok := before[name]; !ok || was != stamp {
			return name, true
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			return name, true
		}
	}
	return "", false
}

// stamps looks at all files.
func (w *watcher) stamps() map[string]string {
	all := map[string]string{}
	for _, list := range [][]string{config.Inputs(w.paths), w.read} {
		for _, name := range list {
			if info, err := os.Stat(name); err == nil {
				all[name] = fmt.Sprint(info.Size(), info.ModTime().UnixNano(), inode(info))
			}
		}
	}
	return all
}

// inode is a file's number: one that replaces another may have its size and time.
func inode(info os.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
