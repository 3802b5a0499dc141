// Package activity counts the attempts of an agent by type, outcome and start latency, and keeps in the store how many there were in each
// minute. Every agent of a store can so show what all of them have done in the last hour and the last two days.
package activity

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Counters count the attempts of an agent since its start. They know no time: in which minute something has happened follows from when
// they are read (Recorder). So what an attempt pays is an atomic addition at its start and one at its end, and no jump of a clock
// can make it count elsewhere.
type Counters struct {
	mu    sync.RWMutex
	types map[string]*Type
	rest  *Type // of types beyond store.ActivityTypes
}

// NewCounters returns counters at zero.
func NewCounters() *Counters { return &Counters{types: map[string]*Type{}, rest: new(Type)} }

// Of returns the counters of a type, by its declared name. They are the same for each call until Forget. Of types beyond
// store.ActivityTypes all have the same.
func (c *Counters) Of(name string) *Type {
	c.mu.RLock()
	known := c.types[name]
	if known != nil {
		known.former.Store(false)
	}
	c.mu.RUnlock()
	if known != nil {
		return known
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.types[name]; t != nil {
		return t
	}
	if len(c.types) >= store.ActivityTypes || name == "" {
		return c.rest
	}
	t := new(Type)
	c.types[name] = t
	return t
}

// Forget lets the counters of a type go once they have been read, unless Of is called for it again before that. Nothing may count there
// any more.
func (c *Counters) Forget(name string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if t := c.types[name]; t != nil {
		t.former.Store(true)
	}
}

// each calls f with what every type has counted since the last call. One caller at a time.
func (c *Counters) each(f func(typ string, n *store.ActivityCounts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, t := range c.types {
		former := t.former.Load()
		if n := t.more(); !n.IsZero() {
			f(name, &n)
		} else if former {
			delete(c.types, name)
		}
	}
	if n := c.rest.more(); !n.IsZero() {
		f("", &n)
	}
}

// Type counts the attempts of one type. The zero value is ready for use, from any goroutine.
type Type struct {
	outcomes [len(store.ActivityCounts{}.Outcomes)]atomic.Int64
	latency  [len(store.ActivityCounts{}.Latency)]atomic.Int64
	former   atomic.Bool

	read store.ActivityCounts // at the last call of more
}

// Started counts an attempt that starts so long after its row was due.
func (t *Type) Started(late time.Duration) { t.latency[store.LatencyBucket(late)].Add(1) }

// Ended counts an attempt that has ended.
func (t *Type) Ended(v task.Verdict) {
	if i := store.OutcomePlace(v); i >= 0 {
		t.outcomes[i].Add(1)
	}
}

// more returns what was counted since the last call.
func (t *Type) more() store.ActivityCounts {
	var now store.ActivityCounts
	for i := range t.outcomes {
		now.Outcomes[i] = t.outcomes[i].Load()
	}
	for i := range t.latency {
		now.Latency[i] = t.latency[i].Load()
	}
	n := now
	n.Sub(&t.read)
	t.read = now
	return n
}
