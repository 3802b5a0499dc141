package schedule

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Engine decides what becomes of due schedules, and has a store do it. It keeps nothing but compiled plans, and holds no lock
// between its look and the change: of many agents that look at the same schedule, one changes it.
type Engine struct {
	store Store
	agent string
	held  func(now time.Time) bool
	fired func(f *store.Firing, began time.Time) // nil: no call

	mu    sync.Mutex
	plans map[planKey]*Plan
	waits map[string]waiting // by the schedule's name: those that this engine saw last with a slot that waits
}

// waiting is when a schedule is decided again of which a slot waits for the end of its last task.
type waiting struct {
	task string
	at   time.Time // by the store's clock
}

// Bounds of an Engine.
const (
	maxPlans = 20_000 // compiled plans that are kept
	applied  = 200    // firings of one transaction
)

// NewEngine returns an Engine that works on a store for the agent of that name. Nothing fires where held reports true: the
// session has not seen the store's clock calm for one TTL, or believes it to be elsewhere than the now that it is given, or it
// drains.
func NewEngine(s Store, agent string, held func(now time.Time) bool) *Engine {
	return &Engine{store: s, agent: agent, held: held, plans: make(map[planKey]*Plan), waits: make(map[string]waiting)}
}

// OnFire registers f to be called with each firing that was applied and inserted tasks, and the local time at which that began. It must be
// called before Fire. f must not block.
func (e *Engine) OnFire(f func(f *store.Firing, began time.Time)) { e.fired = f }

// Fired is what one call of Fire did.
type Fired struct {
	Looked    int  // due schedules; limit: there may be more
	Held      bool // nothing may fire now
	Schedules int  // that it moved on
	Rows      int  // tasks that it inserted
	Missed    int  // slots that do not fire
	Invalid   map[string]string
	Next      time.Duration // until a schedule is due, by the store's clock at the look; 0: no schedule that it saw is
	// Waits is, by task type, until a schedule is decided again of which a slot waits for the end of its last task.
	Waits map[string]time.Duration
}

// Fire looks at no more than limit schedules that are due, and decides and applies what becomes of each. With an error it returns
// what it did nevertheless.
func (e *Engine) Fire(ctx context.Context, limit int) (did Fired, err error) {
	due, err := e.store.DueSchedules(ctx, limit)
	if err != nil {
		return did, err
	}
	did.Looked = len(due.List)
	did.soon(due.NextAt, due.Now)
	defer func() { did.Waits = e.waiting(due.Now) }()
	if did.Held = e.held(due.Now); did.Held || did.Looked == 0 {
		return did, nil
	}
	list := make([]store.Firing, did.Looked)
	for i := range due.List {
		list[i] = e.decide(&due.List[i], due.Now)
	}
	from := rand.IntN(did.Looked) / applied * applied // agents that see the same begin at different places
	for n := 0; n < did.Looked; n += applied {
		first := (from + n) % ((did.Looked + applied - 1) / applied * applied)
		if err := e.apply(ctx, list[first:min(first+applied, did.Looked)], due.Now, &did); err != nil {
			return did, err
		}
	}
	return did, nil
}

// apply applies firings in one transaction.
func (e *Engine) apply(ctx context.Context, list []store.Firing, now time.Time, did *Fired) error {
	began := time.Now()
	done, err := e.store.ApplyFirings(ctx, list)
	if err != nil {
		return err
	}
	for i := range list {
		f := &list[i]
		if i >= len(done) || !done[i] {
			continue
		}
		did.Schedules++
		did.Rows += len(f.Rows)
		did.Missed += f.Missed
		did.soon(f.NextAt, now)
		if e.fired != nil && len(f.Rows) > 0 {
			e.fired(f, began)
		}
		if f.Invalid != "" {
			if did.Invalid == nil {
				did.Invalid = make(map[string]string)
			}
			did.Invalid[f.Name] = f.Invalid
		}
	}
	return nil
}

// soon notes when a schedule is due.
func (f *Fired) soon(at, now time.Time) {
	if at.IsZero() {
		return
	}
	if in := max(at.Sub(now), 1); f.Next == 0 || in < f.Next {
		f.Next = in
	}
}

// decide returns what becomes of a schedule. One that does not compile is marked, and holds up nothing.
func (e *Engine) decide(s *store.Schedule, now time.Time) store.Firing {
	f := store.Firing{Name: s.Name, Version: s.Version, By: e.agent}
	p, err := e.plan(&s.ScheduleSpec)
	if err != nil {
		f.Invalid = err.Error()
		return f
	}
	d := p.Decide(State{
		Created: s.Created, Cursor: s.Cursor, Queued: s.Queued,
		LastTask: s.LastTask, LastLive: s.LastLive, LastSlot: s.LastSlot, LastAt: s.LastAt, LastEnd: s.LastEnd,
	}, now)
	f.Cursor, f.Queued, f.Missed, f.NextAt = d.Cursor, d.Queued, d.Missed, d.NextAt
	e.mu.Lock()
	defer e.mu.Unlock()
	if delete(e.waits, s.Name); d.Waits && len(e.waits) < maxPlans {
		e.waits[s.Name] = waiting{s.Task, d.NextAt}
	}
	for _, slot := range d.Fire {
		f.Rows = append(f.Rows, store.FiringRow{Slot: slot.At, RunAt: slot.RunAt})
	}
	return f
}

// waiting returns Fired.Waits. What another agent has decided meanwhile is forgotten.
func (e *Engine) waiting(now time.Time) map[string]time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all map[string]time.Duration
	for name, w := range e.waits {
		in := w.at.Sub(now)
		if in <= 0 {
			delete(e.waits, name)
			continue
		}
		if all == nil {
			all = make(map[string]time.Duration)
		}
		if first, ok := all[w.task]; !ok || in < first {
			all[w.task] = in
		}
	}
	return all
}

// planKey is a Spec that can be compared.
type planKey struct {
	name, task, cron, every, after, timezone, payload, jitter, from, until, missed, catchUp, overlap string
}

// plan returns the compiled plan of a spec.
func (e *Engine) plan(s *Spec) (*Plan, error) {
	key := planKey{
		s.Name, s.Task, s.Cron, s.Every, s.After, s.Timezone, string(s.Payload), s.Jitter, s.From, s.Until, s.Missed, s.CatchUp, s.Overlap,
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.plans[key]; p != nil {
		return p, nil
	}
	p, err := New(*s)
	if err != nil {
		return nil, err
	}
	if len(e.plans) >= maxPlans {
		clear(e.plans)
	}
	e.plans[key] = p
	return p, nil
}
