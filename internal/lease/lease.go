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
}

func (c *Cause) Error() string {
	if c.Reason == "" {
		return string(c.Verdict)
	}
	return fmt.Sprintf("%s: %s", c.Verdict, c.Reason)
}

// Outcome is the outcome of an attempt that was stopped for this cause.
func (c *Cause) Outcome() task.Outcome {
	return task.Outcome{Verdict: c.Verdict, Error: c.Reason}
}

// Lease is the handle that an executor gets. Its context ends, with a *Cause, when the attempt must stop; the
// executor then has until KillIn runs out to see everything of the attempt dead.
type Lease struct {
	task   *task.Task
	policy *task.Policy
	clock  Clock

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	claimed  time.Duration // local time from before the claim was sent
	end      time.Duration // local time of the window's end
	started  time.Duration // local time; valid once isStarted
	isStart  bool
	over     bool
	pinged   time.Duration // local time of the last progress; valid once isStart
	timer    *time.Timer
	presence func() time.Duration // local time at which the session's presence runs out
}

// KillMargin is how long before the lease's end everything of a subprocess is dead.
const KillMargin = time.Second

// New makes a lease on a task claimed at the local time claimed. presence tells when, in local time, the session's
// presence runs out; nil: never.
func New(parent context.Context, t *task.Task, p *task.Policy, clock Clock, claimed time.Duration, presence func() time.Duration) *Lease {
	l := &Lease{task: t, policy: p, clock: clock, claimed: claimed, presence: presence}
	l.end = claimed + p.Window(t.Phase())
	l.ctx, l.cancel = context.WithCancelCause(parent)
	return l
}

// Task is the row; it is not to be changed.
func (l *Lease) Task() *task.Task { return l.task }

// Policy is the policy that the attempt started with.
func (l *Lease) Policy() *task.Policy { return l.policy }

// Context ends, with a *Cause, when the attempt must stop.
func (l *Lease) Context() context.Context { return l.ctx }

// Start says that the process is about to start, or the request to be sent: the attempt's timeout begins. Only the
// first call counts.
func (l *Lease) Start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isStart {
		return
	}
	l.isStart, l.started = true, l.clock.Now()
	timeout, _, stop := l.policy.Lengths(l.task.Phase())
	length := l.length()
	byDeadline := length < timeout
	// A start that the store or the agent delayed does not move the lease's end.
	length = max(min(length, l.end-stop-l.started), 0)
	l.timer = time.AfterFunc(length, func() {
		reason := "the task's deadline has come"
		if !byDeadline {
			reason = fmt.Sprintf("ran longer than its timeout of %s", timeout)
		}
		l.Stop(&Cause{Verdict: task.TimedOut, Reason: reason})
	})
}

// Late tells whether so much of the window has passed that an attempt which starts now would be stopped before its time.
func (l *Lease) Late() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _, stop := l.policy.Lengths(l.task.Phase())
	return l.end-stop-l.clock.Now() < l.length()
}

// Started tells how long ago the attempt started; ok is false where it has not.
func (l *Lease) Started() (ago time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock.Now() - l.started, l.isStart
}

// length is how long the attempt may take from its start: the timeout, or what is left until the task's deadline.
func (l *Lease) length() time.Duration {
	timeout, _, _ := l.policy.Lengths(l.task.Phase())
	if d := l.task.Deadline; !d.IsZero() && l.task.Phase() != task.Rollback {
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
	length := l.length()
	if l.isStart {
		timeout, _, _ := l.policy.Lengths(l.task.Phase())
		return max(min(timeout-(l.clock.Now()-l.started), length), 0)
	}
	return length
}

// Left is what remains until the task's own deadline, all attempts together; ok is false where it has none.
func (l *Lease) Left() (left time.Duration, ok bool) {
	d := l.task.Deadline
	return d.Sub(l.storeNow()), !d.IsZero()
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

// Stop ends the lease's context with the cause. Only the first cause counts.
func (l *Lease) Stop(c *Cause) { l.cancel(c) }

// Cause is why the lease was stopped; nil while it was not.
func (l *Lease) Cause() *Cause {
	var c *Cause
	errors.As(context.Cause(l.ctx), &c)
	return c
}

// Ping says that the task has made progress. It tells whether the attempt still holds its row; the lease of a policy
// without a heartbeat is its timeout, which no ping moves.
func (l *Lease) Ping() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pinged = l.clock.Now()
	return l.ctx.Err() == nil
}

// left is how much of the lease's window is left.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end - l.clock.Now()
}

// Over tells whether Close has been called.
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
	if l.timer != nil {
		l.timer.Stop()
	}
	l.mu.Unlock()
	l.cancel(nil)
}
