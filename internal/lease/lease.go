// Package lease is an attempt's hold on its row: the handle that executors get (Lease), who keeps it (Keeper), and the
// presence of the session that all of an agent's leases hang on.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Cause is why a lease's context ended before the attempt did. It is the context's cause.
type Cause struct {
	Verdict task.Verdict // Stalled, TimedOut, Cancelled, Lost or Drained
	Reason  string       // for people
	Brief   bool         // task.Outcome.Brief
}

func (c *Cause) Error() string {
	if c.Reason == "" {
		return string(c.Verdict)
	}
	return fmt.Sprintf("%s: %s", c.Verdict, c.Reason)
}

// Outcome is the outcome of an attempt that was stopped for this cause.
func (c *Cause) Outcome() task.Outcome {
	return task.Outcome{Verdict: c.Verdict, Error: c.Reason, Brief: c.Brief}
}

// Lease is the handle that an executor gets. Its context ends, with a *Cause, when the attempt must stop; the
// executor then has until KillIn runs out to see everything of the attempt dead.
//
// A lease ends in the store at its window's end, or with the session's presence if that is earlier. With a heartbeat
// the window moves with each ping that counts; without one it is as long as the timeout.
type Lease struct {
	task     *task.Task
	policy   *task.Policy
	phase    task.Phase
	clock    Clock
	warden   warden               // nil: nobody, so what the task says is known to all at once
	presence func() time.Duration // local time at which the session's presence runs out
	url      func() string        // of pings
	trace    func() string        // of a row without one; nil: none is known

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	claimed time.Duration // local time from before the claim was sent
	end     time.Duration // local time of the window's end, as far as the store has confirmed it
	started time.Duration // local time; valid once isStart
	isStart bool
	ahead   time.Duration // what has to fit into the window before the attempt itself: its check
	checked time.Duration // local time at which that began; valid once isCheck
	isCheck bool
	over    bool
	alarm   alarm
	said    said
	moved   func()                // called when end has moved; nil: nobody minds
	heard   func(Ping, PingReply) // called with each ping; nil: nobody minds

	detached  bool   // the attempt goes on without the agent
	completed bool   // the task has ended itself in the store: there is nothing left to settle
	asked     bool   // a cancellation was asked for
	askedWhy  string // of that
	askedBy   string // who asked, "" where that is not known
}

// warden is who keeps a lease. Its methods are called without the lease's lock and do not block.
type warden interface {
	// write brings what the task said to the store by that local time.
	write(l *Lease, by time.Duration)
	// count counts a ping.
	count(typ string, p PingReply)
	// doubt asks the store whether pings came in elsewhere, and calls Lease.settleDoubt then.
	doubt(l *Lease)
}

// KillMargin is how long before the lease's end everything of a subprocess is dead.
const KillMargin = time.Second

// New makes a lease on a task claimed at the local time claimed. presence tells when, in local time, the session's
// presence runs out; nil: never.
func New(parent context.Context, t *task.Task, p *task.Policy, clock Clock, claimed time.Duration, presence func() time.Duration) *Lease {
	l := &Lease{task: t, policy: p, phase: t.Phase(), clock: clock, claimed: claimed, presence: presence}
	l.said.marks.Fence = t.Fence
	l.end = claimed + p.Window(l.phase)
	if l.phase == task.Run {
		l.ahead = p.Check
	}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	return l
}

// Task is the row; it is not to be changed.
func (l *Lease) Task() *task.Task { return l.task }

// Phase is what the lease is for: the row's phase, or task.Check.
func (l *Lease) Phase() task.Phase { return l.phase }

// Policy is the policy that the attempt started with.
func (l *Lease) Policy() *task.Policy { return l.policy }

// Context ends, with a *Cause, when the attempt must stop.
func (l *Lease) Context() context.Context { return l.ctx }

// Start says that the process is about to start, or the request to be sent: the attempt's timeout and its first window
// begin. Only the first call counts.
func (l *Lease) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isStart {
		return
	}
	l.isStart, l.started = true, l.clock.Now()
	timeout, heartbeat, stop := l.policy.Lengths(l.phase)
	length := l.length()
	l.alarm.byDeadline = length < timeout
	// A start that the store or the agent delayed does not move the lease's end.
	whole := l.end - stop
	if heartbeat == 0 {
		length = min(length, whole-l.started)
	}
	l.alarm.last = l.started + max(length, 0)
	l.alarm.window = heartbeat
	l.alarm.due = min(l.started+heartbeat, whole)
	l.arm()
}

// Late reports whether so much of the window has passed that an attempt which starts now, with its check if that is still
// to come, would be stopped before its time.
func (l *Lease) Late() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, heartbeat, stop := l.policy.Lengths(l.phase)
	length := l.length()
	if heartbeat > 0 {
		length = min(length, heartbeat)
	}
	return l.end-stop-l.clock.Now() < length+l.ahead
}

// Started tells how long ago the attempt started, or its check where it got no further; ok is false where neither did.
func (l *Lease) Started() (ago time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isStart && l.isCheck {
		return l.clock.Now() - l.checked, true
	}
	return l.clock.Now() - l.started, l.isStart
}

// beganJustBefore reports whether the attempt, or its check, started within task.Moments before that local time.
func (l *Lease) beganJustBefore(at time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	just := func(began time.Duration) bool { return began <= at && at-began < task.Moments }
	return l.isStart && just(l.started) || l.isCheck && just(l.checked)
}

// length is how long the attempt may take from its start: the timeout, or what is left until the task's deadline.
func (l *Lease) length() time.Duration {
	timeout, _, _ := l.policy.Lengths(l.phase)
	if d := l.task.Deadline; !d.IsZero() && l.phase != task.Rollback {
		if left := d.Sub(l.storeNow()); left < timeout {
			return max(left, 0)
		}
	}
	return timeout
}

// storeNow is the store's clock as it stands now: the claim's time and what has passed since.
func (l *Lease) storeNow() time.Time { return l.task.ClaimedAt.Add(l.clock.Now() - l.claimed) }

// Deadline is when this attempt must be over, by the store's clock; before Start as if it started now.
func (l *Lease) Deadline() time.Time { return l.storeNow().Add(l.Remaining()) }

// Now is the store's clock.
func (l *Lease) Now() time.Time { return l.storeNow() }

// Remaining is how long this attempt may still take.
func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remaining()
}

// remaining is Remaining. l.mu is held.
func (l *Lease) remaining() time.Duration {
	length := l.length()
	if l.isStart {
		timeout, _, _ := l.policy.Lengths(l.phase)
		return max(min(timeout-(l.clock.Now()-l.started), length), 0)
	}
	return length
}

// Heartbeat is the longest silence that the attempt may keep; 0: no pings are due.
func (l *Lease) Heartbeat() time.Duration {
	_, heartbeat, _ := l.policy.Lengths(l.phase)
	return heartbeat
}

// PingURL is where the task can ping over HTTP; "" where there is no such place.
func (l *Lease) PingURL() string {
	if l.url == nil {
		return ""
	}
	return l.url()
}

// Trace is the trace context of a row that was inserted without one: the same for each of its attempts, whichever agent
// runs it; "" where that is not known.
func (l *Lease) Trace() string {
	if l.trace == nil {
		return ""
	}
	return l.trace()
}

// SetPingURL says where the task can ping. It comes before the attempt starts.
func (l *Lease) SetPingURL(url func() string) { l.url = url }

// OnPing has f called with each ping and its answer. f must not block.
func (l *Lease) OnPing(f func(Ping, PingReply)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = f
}

// OnMove has f called whenever the lease's end has moved, until Close. f must not block.
func (l *Lease) OnMove(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = f
}

// Left is what remains until the task's own deadline, all attempts together; ok is false where it has none, as every
// rollback.
func (l *Lease) Left() (left time.Duration, ok bool) {
	d := l.task.Deadline
	return d.Sub(l.storeNow()), !d.IsZero() && l.phase != task.Rollback
}

// KillIn is how long from now everything of a subprocess must be dead: KillMargin before the lease's end, which is the
// earlier of its window and the session's presence. It may be negative.
func (l *Lease) KillIn() time.Duration {
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	if l.presence != nil {
		end = min(end, l.presence())
	}
	return end - KillMargin - l.clock.Now()
}

// EndsIn is how long from now the lease's own window lasts, presence aside. It may be negative.
func (l *Lease) EndsIn() time.Duration { return l.left() }

// Stop ends the lease's context with the cause. Only the first cause counts.
func (l *Lease) Stop(c *Cause) { l.cancel(c) }

// Cause is why the lease was stopped; nil while it was not.
func (l *Lease) Cause() *Cause {
	var c *Cause
	errors.As(context.Cause(l.ctx), &c)
	return c
}

// left is how much of the lease's window is left.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end - l.clock.Now()
}

// longest is how long the window may be, whatever the task asks for.
func (l *Lease) longest() time.Duration {
	_, _, stop := l.policy.Lengths(l.phase)
	heartbeat, _, _ := l.policy.Liveness(l.phase)
	return max(l.policy.Window(l.phase), heartbeat+stop)
}

// Over reports whether Close has been called.
func (l *Lease) Over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Close says that the attempt is over, and releases what the lease holds in memory. Its row is held until it has been
// settled.
func (l *Lease) Close() {
	l.mu.Lock()
	l.over = true
	l.moved = nil
	l.alarm.stop()
	l.mu.Unlock()
	l.cancel(nil)
}

// Detach says that the task goes on without a connection, which it was told (docs/protocol.md, 202): from now on the
// lease depends on its own window alone. Being told so counts as a ping.
func (l *Lease) Detach() {
	l.Ping(Ping{})
	l.mu.Lock()
	l.detached, l.said.detach = true, true
	l.moved = nil
	l.alarm.stop()
	l.mu.Unlock()
	if l.warden != nil {
		l.warden.write(l, l.clock.Now())
	}
}

// Detached reports whether Detach has been called.
func (l *Lease) Detached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.detached
}

// Completed reports whether the task has been ended in the store by itself, so that there is nothing left to settle.
func (l *Lease) Completed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.completed
}

// complete notes that. What still runs of the attempt may go on until it ends or its time is over.
func (l *Lease) complete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.completed = true
}

// CancelAsked reports whether somebody wants the task cancelled, as far as is known.
func (l *Lease) CancelAsked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// CancelledBy names who asked for the cancellation, as ", by alice"; "" where that is not known.
func (l *Lease) CancelledBy() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.askedBy == "" {
		return ""
	}
	return ", by " + l.askedBy
}

// askCancel stops the attempt because somebody wants the task cancelled. A rollback goes on.
func (l *Lease) askCancel(why string) {
	if l.phase == task.Rollback {
		return
	}
	by := why
	if why == "" {
		why = "a cancellation was asked for"
	}
	l.mu.Lock()
	first, detached := !l.asked, l.detached
	l.asked, l.askedWhy, l.askedBy = true, why, by
	l.mu.Unlock()
	if first && !detached { // one who goes on without us learns of it when it pings
		l.Stop(&Cause{Verdict: task.Cancelled, Reason: why})
	}
}

// NoteCancel notes what somebody else learned: that a cancellation was asked for. It stops nothing.
func (l *Lease) NoteCancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = true
}
