package poll

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// request is a request with several attempts that runs in one slot.
type request struct {
	e        *Engine
	attempts []*attempt // that have begun
	began    time.Duration
	left     atomic.Int64 // attempts that have not ended
	hung     atomic.Int64 // attempts that timed out or stalled

	mu    sync.Mutex
	over  []bool            // by the place of the attempt
	stuck []<-chan struct{} // each closed once what a check has left is gone
}

// many runs the attempts of a job in one request, and returns what its slot gets next. The outcome of each attempt is queued as soon
// as it has ended.
func (e *Engine) many(j job) job {
	lane := j.first.lane
	r := &request{e: e, attempts: make([]*attempt, 0, j.rows())}
	for i := range j.rows() {
		a := j.first
		if i > 0 {
			a = j.more[i-1]
		}
		if e.begins(a) {
			r.attempts = append(r.attempts, a)
		}
	}
	n := len(r.attempts)
	e.slots.beyond.Add(int64(max(n, 1) - j.rows()))
	end := untried
	if n > 0 {
		end = r.run()
	}
	for _, gone := range r.stuck {
		e.quarantine(gone)
	}
	return e.slots.doneMany(lane, end, n, j.bytes, e.o.Clock.Now())
}

// run runs the request to its end.
func (r *request) run() ending {
	n := len(r.attempts)
	leases := make([]*lease.Lease, n)
	for i, a := range r.attempts {
		leases[i] = a.lease
	}
	r.over = make([]bool, n)
	r.left.Store(int64(n))
	r.began = r.e.o.Clock.Now()
	fault.Point("before an attempt")
	r.call(leases)
	fault.Point("after an attempt")
	if int(r.hung.Load()) > n/2 {
		return hung
	}
	return ended
}

// call calls the executor. A panic in it becomes a failure of the attempts that had not ended.
func (r *request) call(leases []*lease.Lease) {
	t := r.attempts[0].declared.typ
	defer func() {
		p := recover()
		out := lostOutcome()
		if p != nil {
			r.e.log.Error("the executor panicked", "tasks", len(leases), "type", t.Name, "panic", p, "stack", string(debug.Stack()))
			out.Error = fmt.Sprintf("the agent failed to run it: %v", p)
		}
		for i := range leases {
			if r.left.Load() == 0 { // mostly
				return
			}
			r.ended(i, out)
		}
	}()
	r.e.o.Executor.RunMany(leases, t, r.ended)
}

// ended takes the outcome of an attempt; only the first one counts.
func (r *request) ended(i int, out task.Outcome) {
	r.mu.Lock()
	first := !r.over[i]
	r.over[i] = true
	if first && out.Stuck != nil {
		r.stuck = append(r.stuck, out.Stuck)
	}
	r.mu.Unlock()
	if !first {
		return
	}
	e, a, now := r.e, r.attempts[i], r.e.o.Clock.Now()
	if endingOf(out.Verdict) == hung {
		r.hung.Add(1)
	}
	e.remember(a, len(r.attempts), out.Verdict)
	bytes := documents(a.lease.Task()) // which are dropped where it is accepted
	e.over(a, &out, now-r.began)
	e.memory.ended(bytes, now)
	if r.left.Add(-1) > 0 {
		e.slots.beyond.Add(-1)
	}
}

// remember remembers a task that has failed in a request of its own, where requests may have several.
func (e *Engine) remember(a *attempt, tasks int, v task.Verdict) {
	id := a.lease.Task().ID
	switch {
	case v == task.Failed && tasks == 1:
		e.slots.alone.add(id)
	case !v.Releases():
		e.slots.alone.forget(id)
	}
}
