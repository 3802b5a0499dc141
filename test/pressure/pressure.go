// Package pressure measures time without what was lost to others on a busy machine, for bounds in real time.
package pressure

import (
	"maps"
	"time"
)

// Watch measures time as time.Since does, without what anything has waited for a processor meanwhile.
type Watch struct {
	system system
	began  time.Time
	waits  map[string]time.Duration
}

// Start starts a watch.
func Start() Watch { return start(system{"/proc", "/sys/fs/cgroup"}) }

func start(s system) Watch { return Watch{s, time.Now(), maps.Collect(s.waits())} }

// Took returns how much time has passed, less the time in which something waited for a processor.
func (w Watch) Took() time.Duration { return max(time.Since(w.began)-w.Waited(), 0) }

// Waited returns for how long something has waited for a processor since the start: nothing on an idle machine, all of the
// time on one that has more to do than it can, or in a container that uses more than its quota. Where several files count
// it, some of them see less than happened, so the one that grew most is right. It is 0 where the system does not say.
func (w Watch) Waited() (most time.Duration) {
	for file, total := range w.system.waits() {
		if before, known := w.waits[file]; known {
			most = max(most, total-before)
		}
	}
	return most
}
