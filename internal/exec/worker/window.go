package worker

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/lease"
)

// How near the end that the guardian process knows may come.
const (
	// tooNear is how long before its kill time a process may still be given another attempt.
	tooNear = time.Second
	// leastTold is what must be left of the end that the guardian process knows for an attempt to begin without a record.
	leastTold = 4 * time.Second
)

// window has the guardian process know when a worker must be dead. To tell it costs a record, and most attempts are over
// soon. So what it knows is no later than the end of the running attempt's lease, but may be earlier: an end that it was told for
// an earlier attempt stays until half of the time that it leaves has passed. Then the guardian process is told the end for the
// running attempt, or that none runs.
type window struct {
	process *command.Worker

	mu    sync.Mutex
	lease *lease.Lease // of the running attempt; nil: none runs
	told  time.Duration
	timer *time.Timer
	over  bool
}

// open begins an attempt.
func (w *window) open(l *lease.Lease) {
	w.mu.Lock()
	w.lease = l
	now := w.process.Now()
	if !w.isTold() || w.told-now < leastTold {
		w.tell(now, now+l.EndsIn())
	}
	w.mu.Unlock()
	l.OnMove(func() { w.moved(l) })
	w.moved(l) // it may end before what was told, or have moved in between
}

// isTold reports whether the guardian process knows an end. w.mu is held.
func (w *window) isTold() bool { return w.told != 0 && w.told != command.Unbound }

// moved notes that an attempt's lease ends at another time. What comes late, of an attempt that is over, means nothing.
func (w *window) moved(l *lease.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lease != l || w.over {
		return
	}
	now := w.process.Now()
	if end := now + l.EndsIn(); end < w.told {
		w.tell(now, end)
	}
}

// shut ends the attempt. It reports whether the process may be used again: the guardian process was not near killing it.
func (w *window) shut(l *lease.Lease) bool {
	l.OnMove(nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lease = nil
	return !w.isTold() || w.told-lease.KillMargin-w.process.Now() >= tooNear
}

// tell tells the guardian process an end, and looks again when half of it has passed. w.mu is held.
func (w *window) tell(now, end time.Duration) {
	w.told = end
	w.process.Move(end)
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if left := end - lease.KillMargin - now; end != command.Unbound && left > tooNear/2 { // else shut retires the process
		w.timer = time.AfterFunc(left/2, w.again)
	}
}

// again tells what is so by now.
func (w *window) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	now := w.process.Now()
	if w.lease == nil {
		w.tell(now, command.Unbound)
		return
	}
	if end := now + w.lease.EndsIn(); end > now+lease.KillMargin {
		w.tell(now, end)
	} // else its stop is under way, or the guardian process's
}

// close ends it.
func (w *window) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over, w.lease = true, nil
	if w.timer != nil {
		w.timer.Stop()
	}
}
