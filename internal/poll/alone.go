package poll

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Tasks that go alone.
const (
	aloneFor = time.Hour // longer than most backoffs
	maxAlone = 10_000    // that are remembered
)

// alone remembers tasks that have failed in a request of their own. When they are retried they go alone again: a task that breaks
// each request that it is in would otherwise delay others once for each of its attempts. That uses no attempt of others,
// so it is enough to remember it here, for a while.
type alone struct {
	clock lease.Clock
	n     atomic.Int64 // of until: mostly 0, and then has costs one load

	mu    sync.Mutex
	until map[task.ID]time.Duration // local time
}

func newAlone(clock lease.Clock) *alone {
	return &alone{clock: clock, until: make(map[task.ID]time.Duration)}
}

func (a *alone) has(id task.ID) bool {
	if a.n.Load() == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	until, ok := a.until[id]
	return ok && until > a.clock.Now()
}

// add remembers a task, unless there are too many.
func (a *alone) add(id task.ID) {
	now := a.clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.until) >= maxAlone {
		for old, until := range a.until {
			if until <= now {
				delete(a.until, old)
			}
		}
	}
	if _, ok := a.until[id]; ok || len(a.until) < maxAlone {
		a.until[id] = now + aloneFor
	}
	a.n.Store(int64(len(a.until)))
}

// forget forgets a task that has ended in another way.
func (a *alone) forget(id task.ID) {
	if a.n.Load() == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, id)
	a.n.Store(int64(len(a.until)))
}
