package poll

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// unsettled is an outcome that the store has not confirmed yet.
type unsettled struct {
	store.Settlement
	lease    *lease.Lease  // nil: of a row that is reaped, or an unleased row
	reaped   *store.Reaped // a row that is reaped, or an unleased row; nil: it has a lease
	policy   *task.Policy  // that it is reaped by
	unleased bool
	done     chan store.Answer // gets the last answer; nil: nothing waits for it
	meters   *meters           // of the attempt; nil: it never began, or the agent has not run it
	span     *attemptSpan      // of its attempt, which is over; nil: none is recorded
}

// bytes returns how much memory the outcome keeps, with the row as it was claimed.
func (u *unsettled) bytes() int {
	n := 256 + len(u.Outcome.Result) + len(u.Outcome.Output) + len(u.Outcome.Error) + len(u.Report.Checkpoint) + len(u.Report.Message)
	if u.lease != nil {
		t := u.lease.Task()
		n += documents(t) + len(t.Labels)
	}
	return n
}

// settler collects outcomes and settles them. While one settlement is in flight, the outcomes that arrive wait and go
// together in the next: an idle agent adds no delay, a busy one few statements.
//
// An outcome stays in memory until the store has answered for it, however long the store is out of reach. Repeating a
// settlement is safe: what was applied before is answered as Ended. So after an error the whole batch is tried again, and
// nothing has to be known about how far it came.
type settler struct {
	e *Engine

	mu       sync.Mutex
	queue    []*unsettled
	leaving  []*unsettled  // outcomes for the loop's next exchange
	left     time.Duration // local time since which the first of them waits
	waiting  int           // outcomes in memory, those under way included
	reaped   int           // of these, of reaped rows
	bytes    int
	failing  bool
	unleased map[task.ID]task.Fence // that are being released
	empty    chan struct{}          // closed when waiting is 0 after flush was called; nil before
	hurry    bool                   // flush was called: retry sooner

	more chan struct{} // has an element when queue has

	rows []store.Settlement // that try works with, kept from one call to the next
}

func newSettler(e *Engine) *settler {
	return &settler{e: e, unleased: make(map[task.ID]task.Fence), more: make(chan struct{}, 1)}
}

// add queues an outcome. It never blocks: room bounds how many there can be, because it bounds the claims.
func (s *settler) add(u *unsettled) {
	leaves := s.e.leaves(u)
	s.mu.Lock()
	if leaves {
		if len(s.leaving) == 0 {
			s.left = s.e.o.Clock.Now()
		}
		s.leaving = append(s.leaving, u)
	} else {
		s.queue = append(s.queue, u)
	}
	s.waiting++
	if u.reaped != nil && !u.unleased {
		s.reaped++
	}
	s.bytes += u.bytes()
	s.e.o.Metrics.Buffered.Set(float64(s.waiting))
	s.mu.Unlock()
	if leaves {
		s.e.slots.signal()
	}
	s.notify()
}

// notify wakes run. It never blocks.
func (s *settler) notify() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// addUnleased is add for an unleased row, unless it is queued already: each session heartbeat finds it again.
func (s *settler) addUnleased(u *unsettled) (isNew bool) {
	s.mu.Lock()
	if s.unleased[u.ID] == u.Fence {
		s.mu.Unlock()
		return false
	}
	s.unleased[u.ID] = u.Fence
	s.mu.Unlock()
	s.add(u)
	return true
}

// returns reports whether an unleased row is being released.
func (s *settler) returns(h store.Held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unleased[h.ID] == h.Fence
}

// room returns how many more rows may be claimed before too many outcomes could be in memory.
func (s *settler) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes >= maxBytes {
		return 0
	}
	return max(maxUnsettled-s.waiting-s.e.slots.held(), 0)
}

// mayReap returns how many rows may be reaped now, however many rows the agent has of its own: maxSweep at once, and none
// while settlements fail or the memory for outcomes is full.
func (s *settler) mayReap() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing || s.bytes >= maxBytes {
		return 0
	}
	return max(maxSweep-s.reaped, 0)
}

// run settles until ctx ends. Small settlements take half of its time at most: after one it waits for as long as that took, so
// that settlements grow with the load. An outcome that arrives after that wait is settled at once.
func (s *settler) run(ctx context.Context) {
	var b backoff
	size := newStride(maxSettle)
	for {
		batch := s.take(size.rows)
		if len(batch) == 0 {
			if !s.rest(ctx) {
				return
			}
			continue
		}
		began := s.e.o.Clock.Now()
		again, err := s.try(ctx, batch)
		s.putBack(again, err != nil)
		switch {
		case err != nil:
			size.failed(len(batch))
			wait := b.next()
			if s.hurried() {
				wait = min(wait, 200*time.Millisecond)
			}
			if !pause(ctx, nil, wait) {
				return
			}
		case len(again) == len(batch): // all of them busy
			if !pause(ctx, nil, spread(50*time.Millisecond)) {
				return
			}
		default:
			b.reset()
			size.went()
			if len(batch) < gatherBelow && s.e.slots.active() > 0 && !s.e.slots.needRoom() && !pause(ctx, nil, min(s.e.o.Clock.Now()-began, gatherFor)) {
				return
			}
		}
	}
}

// take removes the next settlement from the queue, bounded in rows and in bytes.
func (s *settler) take(most int) []*unsettled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.leaving) > 0 && s.e.o.Clock.Now()-s.left >= exchangeFor {
		s.queue, s.leaving = append(s.queue, s.leaving...), nil
	}
	n, bytes := 0, 0
	for n < min(len(s.queue), most) && (n == 0 || bytes < maxBytes/4) {
		bytes += s.queue[n].bytes()
		n++
	}
	batch := s.queue[:n:n]
	s.queue = s.queue[n:]
	if len(s.queue) == 0 {
		s.queue = nil
	}
	return batch
}

// putBack queues what has to be settled again.
func (s *settler) putBack(again []*unsettled, failing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = failing
	if len(again) > 0 {
		if failing && len(again) > 1 {
			s.queue = append(again, s.queue...)
		} else {
			s.queue = append(s.queue, again...) // a busy row, or one that fails alone, lets the others go first
		}
		s.notify()
	}
	if s.waiting == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
	s.e.slots.signal()
}

// try makes one settlement and returns the outcomes that are to be tried again.
func (s *settler) try(ctx context.Context, batch []*unsettled) (again []*unsettled, err error) {
	rows := slices.Grow(s.rows, len(batch))
	for _, u := range batch {
		rows = append(rows, u.Settlement)
	}
	s.rows = nil // after an error the call may be under way still
	var answers []store.Answer
	err = s.e.call(ctx, "settle", func(ctx context.Context) (err error) {
		answers, err = s.e.o.Store.Settle(ctx, s.e.keeper.Session(), rows)
		return err
	})
	if err != nil {
		return batch, err
	}
	clear(rows)
	s.rows = rows[:0]
	settled := make(map[string][]string)
	for _, u := range batch {
		typ := s.e.typeOf(u)
		tenants := settled[typ]
		if u.row().Tenant != "" {
			tenants = append(tenants, u.row().Tenant)
		}
		settled[typ] = tenants
	}
	return s.answeredAll(batch, answers, settled), nil
}

// typeOf returns the name of the declared type of an outcome's row; "": it is not declared any more.
func (e *Engine) typeOf(u *unsettled) string {
	if d := e.declarations().byName[u.row().Type]; d != nil {
		return d.typ.Name
	}
	return ""
}

func (s *settler) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *settler) hurried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hurry
}

// flush waits until everything is settled, for limit at most. No outcome may be added any more.
func (s *settler) flush(limit time.Duration) {
	s.mu.Lock()
	s.hurry = true
	if s.waiting == 0 {
		s.mu.Unlock()
		return
	}
	empty := make(chan struct{})
	s.empty = empty
	s.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
		s.e.log.Error("outcomes could not be settled before the end; their rows come back when their leases end", "outcomes", s.count())
	}
}
