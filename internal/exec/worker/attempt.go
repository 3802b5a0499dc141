package worker

import (
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/exec/envelope"
	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Times that no declaration changes.
const (
	// exitWithin is how long a process may take to exit once it has closed descriptor 3: at an exit, that is a moment earlier.
	exitWithin = time.Second
	// faultGrace is how long a process that broke the protocol has to exit after its stop signal, if the stop's grace is not less.
	faultGrace = time.Second
)

// ended is how an attempt ended in a worker.
type ended struct {
	task.Outcome
	unread bool // nothing of the envelope was read: another process can have the attempt
	spared bool // and that is no fault of the process
	left   bool // processes of the attempt were left, and have been ended
	fate   fate
}

// fate is what becomes of the process after an attempt.
type fate int

const (
	gone  fate = iota // it has been ended
	reuse             // it can be given another attempt
	leave             // it is to be ended, and nothing of the attempt is in it
)

// run runs one attempt. When it returns, nothing of the attempt is left, or its outcome says so.
func (w *worker) run(l *lease.Lease, t *task.Type) ended {
	row := l.Task()
	e := envelope.Of(l, t)
	line, err := Request(&e)
	if err != nil {
		return ended{Outcome: task.Outcome{Verdict: task.Rejected, Error: err.Error(), NeverStarted: true}, fate: reuse}
	}
	a := &attempt{lease: l, id: row.ID, fence: row.Fence, began: time.Now()}
	if !w.begin(a) {
		overdue := w.process.Overdue()
		end := w.close().ended(task.Outcome{Error: w.why()}, true)
		end.spared = overdue
		return end
	}
	w.window.open(l)
	l.Start()
	defer w.process.Observe(l)()
	w.process.Write(line)
	fault.Point("after an envelope")
	end := w.await(a)
	if !w.window.shut(l) && end.fate == reuse {
		end.fate = leave
	}
	if end.Verdict == task.Stalled {
		end.Error += a.refused.String()
	}
	w.runs++
	return end
}

// await waits until the running attempt has ended or must.
func (w *worker) await(a *attempt) ended {
	defer w.rest()
	select {
	case <-w.over:
	case <-a.lease.Context().Done():
		return w.stop(a)
	case <-w.broken:
	case <-w.process.Exited():
		w.process.Drain()
	case <-w.process.Refused():
		if !w.exits(exitWithin) {
			w.lose(errors.New("the worker closed its standard input: keep it open until you exit, and exit at its end"))
		}
	case <-w.process.Silent():
		if !w.exits(exitWithin) {
			w.lose(errors.New("the worker closed descriptor 3 without a last line for the attempt: keep it open until you exit"))
		}
	}
	if last := w.finished(); last != nil {
		return w.settle(a, last)
	}
	if w.isBroken() {
		return w.faulty(a)
	}
	return w.exited(a)
}

// settle is the end of an attempt by its last line. The process goes on, unless something is left of the attempt or it is not
// to be trusted.
func (w *worker) settle(a *attempt, last *Line) ended {
	fault.Point("after a last line")
	o := last.Outcome
	if c := a.lease.Cause(); c != nil && o.Verdict != task.Succeeded {
		o = c.Outcome() // it was about to be stopped
	}
	if !w.process.Written() {
		w.lose(errors.New("the worker ended an attempt before it had read the whole envelope: read lines to their end"))
	}
	if o.Verdict != task.Succeeded && (w.isBroken() || !w.process.Clean()) {
		left := !w.isBroken()
		w.dismiss(a.lease)
		end := w.close().ended(o, false)
		end.left = left
		return end
	}
	o.Output = w.process.Output()
	if w.usable() {
		return ended{Outcome: o, fate: reuse}
	}
	return ended{Outcome: o, fate: leave}
}

// stop is the end of an attempt whose lease has ended: the process has to go, group and all. A result that it still writes
// within its grace counts.
func (w *worker) stop(a *attempt) ended {
	w.process.Signal()
	w.process.AwaitGone(min(w.command.StopGrace, a.lease.KillIn()))
	c := w.close()
	o := cause(a.lease).Outcome()
	if last := w.finished(); last != nil && last.Outcome.Verdict == task.Succeeded {
		o = last.Outcome
	} else if c.unread {
		o.NeverStarted = true
		if o.Verdict == task.TimedOut || o.Verdict == task.Stalled { // no fault of the task
			o.Verdict, o.Error = task.Undelivered, "the worker read nothing of the envelope: "+o.Error
		}
	}
	return c.ended(o, false)
}

// exited is the end of an attempt whose process has ended without a last line.
func (w *worker) exited(a *attempt) ended {
	lived, killed := time.Since(a.began), w.process.Overdue() && w.process.Killed()
	if !w.process.AwaitGone(0) { // it has left others
		w.dismiss(a.lease)
	}
	c := w.close()
	last := w.finished() // it may have had no line feed
	switch {
	case last != nil:
		return c.ended(last.Outcome, false)
	case killed:
		return c.ended(frozen(a.lease).Outcome(), false)
	case c.unread:
		return c.ended(w.process.Exit(lived, c.output), true)
	}
	return c.ended(w.process.Exit(lived, c.output), false)
}

// faulty is the end of an attempt whose process broke the protocol and goes on: it has to go.
func (w *worker) faulty(a *attempt) ended {
	w.dismiss(a.lease)
	c := w.close()
	return c.ended(task.Outcome{Verdict: task.Failed, Error: w.why()}, c.unread)
}

// dismiss asks all of the group to end, and gives it a moment.
func (w *worker) dismiss(l *lease.Lease) {
	w.process.Signal()
	w.process.AwaitGone(min(w.command.StopGrace, faultGrace, l.KillIn()))
}

// closed is a process that was ended.
type closed struct {
	output string          // that was not taken before
	unread bool            // nothing of the last envelope was read
	stuck  <-chan struct{} // closed once it is gone; nil: it is
}

// close ends the process, group and all, and gives up what it had. What it reported before has been taken in.
func (w *worker) close() (c closed) {
	w.window.close()
	gone := w.process.Kill()
	_, c.unread = w.process.EndWrite() // nothing reads any more
	c.unread = c.unread && gone
	c.output = w.process.Close()
	c.stuck = w.process.Release(gone)
	return c
}

// ended is the end of an attempt with that outcome in a process that was ended. Of one that is unread, Pool.Run makes an outcome with a verdict.
func (c closed) ended(o task.Outcome, unread bool) ended {
	o.Output = c.output
	if c.stuck != nil {
		o.Stuck, o.EndUnknown = c.stuck, true
		if o.Verdict != task.Succeeded {
			o.Error += " (processes of it are still there after SIGKILL)"
		}
	}
	return ended{Outcome: o, unread: unread}
}

// lose is distrust.
func (w *worker) lose(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.distrust(why)
}

// exits waits for the end of a process for at most d, and reports whether it has ended.
func (w *worker) exits(d time.Duration) bool { return w.exitsUnless(d, nil) }

// exitsUnless is exits. Once hurry is closed, exitWithin has to do.
func (w *worker) exitsUnless(d time.Duration, hurry <-chan struct{}) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-w.process.Exited():
		return true
	case <-late.C:
		return false
	case <-hurry:
		return w.exits(min(d, exitWithin))
	}
}

func (w *worker) isBroken() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault != nil
}

// cause is why the lease ended.
func cause(l *lease.Lease) *lease.Cause {
	if c := l.Cause(); c != nil {
		return c
	}
	return &lease.Cause{Verdict: task.Drained, Reason: "the agent is stopping"}
}

// frozen is why an attempt ended that the guardian process has killed.
func frozen(l *lease.Lease) *lease.Cause {
	if c := l.Cause(); c != nil {
		return c
	}
	return &lease.Cause{Verdict: task.Drained, Reason: "the agent was frozen until the lease was over"}
}
