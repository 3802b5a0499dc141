package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/exec/answer"
	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// worker is one process of a worker, and the attempt that it runs. line is called by the reader of its descriptor 3; all else by
// one goroutine at a time, its owner: the pool, or the attempt that it was lent to.
type worker struct {
	log     *slog.Logger
	command *task.Command
	process *command.Worker
	window  window
	began   time.Time // its start
	stray   func()    // called with each last line that is not the running attempt's

	ready  chan struct{} // closed once it can be given attempts
	over   chan struct{} // has an element once the running attempt is over; one of an earlier attempt is gone when the next begins
	broken chan struct{} // closed once it is not to be given any more; fault says why

	mu      sync.Mutex
	isReady bool
	fault   error
	current *attempt // nil: none runs
	refused ping.Refused
	refusal func(error) // called with each line that means nothing or is dropped; nil: no call

	runs  int       // attempts so far; its owner's
	late  bool      // it has printed while it ran nothing; its owner's
	since time.Time // from then on it is idle; the pool's
}

// attempt is what a worker knows of the attempt that it runs.
type attempt struct {
	lease   *lease.Lease
	id      task.ID
	fence   task.Fence
	began   time.Time
	over    bool // last is there
	last    Line
	refused ping.Refused
}

// hooks are called with what a worker writes wrong. They must not block. nil: no call.
type hooks struct {
	stray   func(typ string) // see Options
	refusal func(error)      // see worker
}

// start starts a process of that target.
func start(r *command.Runner, log *slog.Logger, t *task.Type, c *task.Command, h hooks) (*worker, error) {
	w := &worker{
		began: time.Now(), log: log.With("type", t.Name), command: c, ready: make(chan struct{}), over: make(chan struct{}, 1),
		broken:  make(chan struct{}),
		refusal: h.refusal,
	}
	w.stray = func() {
		if h.stray != nil {
			h.stray(t.Name)
		}
	}
	w.mu.Lock() // a line may come before process is set
	defer w.mu.Unlock()
	p, err := r.StartWorker(t, c, MaxLine, w.line)
	if err != nil {
		return nil, err
	}
	w.process, w.window.process = p, p
	w.log = w.log.With("worker", p.PID())
	return w, nil
}

// line takes in a line of descriptor 3.
func (w *worker) line(line []byte) (noise bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if line == nil {
		w.distrust(fmt.Errorf("the worker wrote a line of more than %d bytes on descriptor 3; a result has at most %d: "+
			"store what is larger elsewhere, and return where it is", MaxLine, task.MaxResult))
		return false
	}
	l, err := Parse(line)
	if err != nil {
		if e, ok := errors.AsType[*Error](err); ok && e.Last {
			w.distrust(fmt.Errorf("the worker's last line cannot be read: %w", err))
			return false
		}
		w.refuse(err)
		return true
	}
	switch l.Kind {
	case Ready:
		w.setReady()
	case Ping:
		if a := w.current; a != nil && !a.over && l.Of(a.id, a.fence) {
			a.lease.Ping(l.Ping)
		} else if w.refusal != nil {
			w.refusal(errors.New("the worker pinged after the last line, or for another attempt: a ping is of the attempt that runs"))
		}
	case Last:
		w.end(&l)
		return false
	case Blank:
	}
	return true
}

// setReady notes that the process is ready. w.mu is held.
func (w *worker) setReady() {
	if w.isReady {
		w.refuse(errors.New("the worker said again that it is ready"))
		return
	}
	w.isReady = true
	close(w.ready)
}

// end takes in a last line. w.mu is held.
func (w *worker) end(l *Line) {
	a := w.current
	if a != nil && !a.over && (l.Of(a.id, a.fence) || fault.Off(fault.OwnLine)) {
		a.last, a.over = *l, true
		w.over <- struct{}{} // there is room, since the attempt was not over
		return
	}
	w.stray()
	switch {
	case a == nil:
		w.distrust(fmt.Errorf("the worker wrote a last line for task %d (fence %d) while it ran nothing", l.ID, l.Fence))
	case a.over && l.Of(a.id, a.fence):
		w.distrust(fmt.Errorf("the worker wrote a second last line for task %d (fence %d)", l.ID, l.Fence))
	default:
		w.distrust(fmt.Errorf("the worker wrote a last line for task %d (fence %d) while it ran task %d (fence %d): "+
			"repeat id and fence of the envelope that was read last", l.ID, l.Fence, a.id, a.fence))
	}
}

// distrust says that the process is not to be used any more. w.mu is held.
func (w *worker) distrust(why error) {
	if w.fault == nil {
		w.log.Warn("a worker broke the protocol, and is ended", "err", why)
		w.fault = why
		close(w.broken)
	}
}

// refuse notes a line that means nothing. There is no way to answer the worker, so the first is logged. w.mu is held.
func (w *worker) refuse(err error) {
	if w.refusal != nil {
		w.refusal(err)
	}
	if a := w.current; a != nil {
		if a.refused.Add(err) {
			w.log.Warn("a line on descriptor 3 does not count; further ones of this attempt are not logged",
				"task", a.id, "fence", a.fence, "err", err)
		}
	} else if w.refused.Add(err) {
		w.log.Warn("a line on descriptor 3 outside of an attempt does not count; further ones are not logged", "err", err)
	}
}

// usable reports whether the process can be given an attempt.
func (w *worker) usable() bool {
	return !isClosed(w.broken) && !isClosed(w.process.Exited()) && !isClosed(w.process.Silent()) && !w.process.Overdue()
}

// why is why it is not usable.
func (w *worker) why() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		return w.fault.Error()
	}
	switch {
	case isClosed(w.process.Exited()):
		return "it ended: " + w.process.Status()
	case isClosed(w.process.Silent()):
		return "it closed descriptor 3: keep that open until you exit"
	}
	return "the guardian process may have killed it"
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitReady waits until the process is ready, for at most d, or gives the reason why it is not.
func (w *worker) awaitReady(d time.Duration, closing <-chan struct{}) error {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-w.ready:
		w.process.Settled()
		return nil
	case <-w.process.Exited():
		return fmt.Errorf("it ended before it was ready: %s", w.process.Status())
	case <-w.process.Silent():
		if w.exits(exitWithin) {
			return fmt.Errorf("it ended before it was ready: %s", w.process.Status())
		}
		return errors.New(`it closed descriptor 3 before it was ready: write {"ready": true} there, and keep it open`)
	case <-w.broken:
		return errors.New(w.why())
	case <-late.C:
		return fmt.Errorf(`it was not ready within %s: write {"ready": true} to descriptor 3, and flush it`, d)
	case <-closing:
		return errClosing
	}
}

var errClosing = errors.New("the agent starts no more workers of this configuration")

// begin makes an attempt the running one. It is false where the process cannot be used.
func (w *worker) begin(a *attempt) bool {
	if !w.usable() {
		return false
	}
	w.passOver(w.process.Output())
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		return false
	}
	select {
	case <-w.over:
	default:
	}
	w.current = a
	return true
}

// passOver takes in output that is kept with no attempt. Of what comes between attempts, only the first is logged.
func (w *worker) passOver(output string) {
	switch {
	case output == "": // mostly
	case w.runs == 0:
		w.log.Info("output of a worker's start", "output", answer.Line(output))
	case !w.late:
		w.late = true
		w.log.Info("a worker printed while it ran nothing, which is kept with no attempt and not logged again: flush output before the last line",
			"output", answer.Line(output))
	}
}

// finished is the last line of the running attempt, if it has come.
func (w *worker) finished() *Line {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.current.over {
		return nil
	}
	return &w.current.last
}

// rest ends the running attempt: what comes from now on is of none.
func (w *worker) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.current = nil
}

// retire ends a process that runs nothing: its standard input ends, and it has the stop's grace to exit before it is stopped,
// and once more before it is killed. It has less before it is stopped once hurry is closed. One that is not to be trusted is
// stopped at once, and so is what one leaves that exits.
func (w *worker) retire(hurry <-chan struct{}) closed {
	w.window.close()
	w.process.HangUp()
	grace := w.command.StopGrace
	if !w.isBroken() && w.exitsUnless(grace, hurry) {
		grace = min(grace, faultGrace)
	}
	if !w.process.AwaitGone(0) {
		w.process.Signal()
		w.process.AwaitGone(grace)
	}
	return w.close()
}
