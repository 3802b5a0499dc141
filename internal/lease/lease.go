// Package lease contains an attempt's hold on its row. Lease is the handle that executors get, Keeper holds all leases of an
// agent, and both depend on the agent's session, whose heartbeats the Keeper writes.
//
// Two ends limit a lease: its own window, which only the task's progress moves, and the end of the session, which heartbeats
// move. Everything here measures local time with a clock that is monotonic and counts suspended time. The store compares
// times by its own clock alone, so requests carry durations and ages, never times.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Cause is the reason for which a lease's context ended before its attempt did. It is the context's cause.
type Cause struct {
	Verdict task.Verdict // Stalled, TimedOut, Cancelled, Lost or Drained
	Reason  string       // human-readable
	Brief   bool         // task.Outcome.Brief
}

func (c *Cause) Error() string {
	if c.Reason == "" {
		return string(c.Verdict)
	}
	return fmt.Sprintf("%s: %s", c.Verdict, c.Reason)
}

// Outcome returns the outcome of an attempt that was stopped for this cause.
func (c *Cause) Outcome() task.Outcome {
	return task.Outcome{Verdict: c.Verdict, Error: c.Reason, Brief: c.Brief}
}

// Lease is the handle that an executor gets. Its context ends, with a *Cause, when the attempt must stop; the
// executor then has until KillIn runs out to make sure that everything of the attempt is dead.
//
// In the store a lease ends at its window's end, or when the session expires if that is earlier. With a heartbeat
// the window moves with each ping that counts; without one it is as long as the timeout.
//
// Memory knows two versions of the window. alarm.due is when the next ping must come, as the task has earned it by its
// pings so far. end is the end that the store has confirmed, and it never runs ahead of the store: a renewal moves it only
// once the reply is there. The attempt is stopped by the earlier of the two, so an agent that cannot write stops in time.
type Lease struct {
	task     *task.Task
	policy   *task.Policy
	phase    task.Phase
	clock    Clock
	warden   warden                           // nil: there is no store, so each report counts as written at once
	presence func() time.Duration             // local time at which the session expires
	pings    func(task.ID, task.Fence) string // the ping URL; nil: there is none
	traces   func(task.ID) string             // the trace context of a row without one; nil: none is known
	flags    string                           // of the attempt's trace context; "": its parent's

	ctx     context.Context
	cancel  context.CancelCauseFunc
	earlier *Lease // on the same row, opened before this one; nil: nothing was left of it

	mu       sync.Mutex
	claimed  time.Duration // local time from before the claim was sent
	end      time.Duration // local time of the window's end, as far as the store has confirmed it
	endSet   time.Duration // local time of that confirmation
	started  time.Duration // local time; valid once isStart
	ahead    time.Duration // what has to fit into the window before the attempt itself: its check
	checked  time.Duration // local time at which that began; valid once isCheck
	alarm    alarm
	reported *reported                         // nil until the task reports something
	moved    func()                            // called when end has moved; nil: no call
	onPing   func(store.Ping, store.PingReply) // called with each ping; nil: no call
	gone     chan struct{}                     // see whenGone; nil: there is no call of it yet

	after *task.After // what the run gets to know of tasks that its own has waited for; nil: it has waited for none

	cancelRequestedBy string // who requested it; "" if unknown
	cancelRequested   bool   // a cancellation was requested
	isStart, isCheck  bool   // the attempt has started, or its check
	heard             bool   // a ping has come, whether it counted or not
	over              bool
	lost              bool // the agent knows that it has lost the row
	detached          bool // the attempt goes on without the agent
	completed         bool // the task has completed itself in the store: there is nothing left to settle
	failed            bool // the task has reported its failure: likewise
	released          bool // the keeper has forgotten it; the keeper's mu is held
}

// warden is what a lease needs of its Keeper. Its methods are called without the lease's lock and do not block.
type warden interface {
	// write writes the task's reports to the store by that local time.
	write(l *Lease, by time.Duration)
	// count counts a ping.
	count(typ string, p store.PingReply)
	// doubt asks the store whether pings arrived elsewhere, and then calls Lease.settleDoubt.
	doubt(l *Lease)
}

// KillMargin is how long before the lease's end everything of a subprocess is dead. It covers two errors about the store's
// clock: one that no heartbeat has detected, and one that a sweep allows.
const KillMargin = 2 * store.JumpTolerance

// New returns a lease on a task claimed at the local time claimed. presence returns the local time at which the session
// expires; nil: never.
func New(parent context.Context, t *task.Task, p *task.Policy, clock Clock, claimed time.Duration, presence func() time.Duration) *Lease {
	l := &Lease{task: t, policy: p, phase: t.Phase(), clock: clock, claimed: claimed, presence: presence}
	l.end = claimed + p.Window(l.phase)
	if l.phase == task.Run {
		l.ahead = p.Check
	}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	return l
}

// Task is the row; it is not to be changed.
func (l *Lease) Task() *task.Task { return l.task }

// Phase returns the phase of the attempt: the row's phase, or task.Check.
func (l *Lease) Phase() task.Phase { return l.phase }

// stopLength returns how long stopping the attempt may take.
func (l *Lease) stopLength() time.Duration {
	_, _, stop := l.policy.Lengths(l.phase)
	return stop
}

// Policy is the policy that the attempt started with.
func (l *Lease) Policy() *task.Policy { return l.policy }

// Context ends, with a *Cause, when the attempt must stop.
func (l *Lease) Context() context.Context { return l.ctx }

// Start is called when the process is about to start, or the request about to be sent: the attempt's timeout and its first
// window begin. Only the first call counts.
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
	// The lease's end counts from the claim, not from here. If the store or the agent delayed the start, the attempt has
	// less time: its window must still end a stop before the lease does.
	whole := l.end - stop
	if heartbeat == 0 {
		length = min(length, whole-l.started)
	}
	l.alarm.last = l.started + max(length, 0)
	l.alarm.window = heartbeat
	l.alarm.due = min(l.started+heartbeat, whole)
	l.arm(l.started)
}

// Begun reports whether Start has been called.
func (l *Lease) Begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isStart
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

// Started returns how long ago the attempt started, or its check if it got no further; ok is false if neither did.
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

// length returns how long the attempt may take from its start: the timeout, or the time until the task's deadline.
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

// Remaining returns how long this attempt may still take.
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

// Heartbeat returns the longest time that may pass between two pings; 0: no pings are due.
func (l *Lease) Heartbeat() time.Duration {
	_, heartbeat, _ := l.policy.Lengths(l.phase)
	return heartbeat
}

// PingURL returns the URL at which the task can ping; "" if there is none.
func (l *Lease) PingURL() string {
	if l.pings == nil {
		return ""
	}
	return l.pings(l.task.ID, l.task.Fence)
}

// Trace returns the trace context of a row that was inserted without one: the same for each of its attempts, whichever agent
// runs it; "" if it is unknown.
func (l *Lease) Trace() string {
	if l.traces == nil {
		return ""
	}
	return l.traces(l.task.ID)
}

// TraceContext returns the trace context that the attempt's is a child of: the row's own, else that of Trace (derived), else none.
func (l *Lease) TraceContext() (c task.TraceContext, derived bool) {
	if c, ok := task.ParseTraceparent(l.task.Traceparent); ok {
		return c, false
	}
	c, ok := task.ParseTraceparent(l.Trace())
	return c, ok
}

// SetTraceFlags says whether the attempt is sampled, as the flags of a traceparent. It must be called before the attempt starts.
func (l *Lease) SetTraceFlags(flags string) { l.flags = flags }

// TraceFlags returns what SetTraceFlags has set; "": nothing.
func (l *Lease) TraceFlags() string { return l.flags }

// Checked returns how long ago the attempt's check began, and how long it took, up to the attempt's start or to now; ok is false
// if no check was asked.
func (l *Lease) Checked() (ago, took time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isCheck {
		return 0, 0, false
	}
	now := l.clock.Now()
	until := now
	if l.isStart {
		until = l.started
	}
	return now - l.checked, max(until-l.checked, 0), true
}

// SetPingURL sets the URL at which the task can ping. It must be called before the attempt starts.
func (l *Lease) SetPingURL(url func() string) {
	l.pings = func(task.ID, task.Fence) string { return url() }
}

// OnPing registers f to be called with each ping and its reply. f must not block.
func (l *Lease) OnPing(f func(store.Ping, store.PingReply)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onPing = f
}

// OnMove registers f to be called whenever the lease's end has moved, until Close. f must not block.
func (l *Lease) OnMove(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = f
}

// Left returns the time until the task's own deadline, which is for all attempts together; ok is false if it has none. A
// rollback has none.
func (l *Lease) Left() (left time.Duration, ok bool) {
	d := l.task.Deadline
	if d.IsZero() || l.phase == task.Rollback {
		return 0, false
	}
	return d.Sub(l.storeNow()), true
}

// KillIn returns the time from now until everything of a subprocess must be dead: KillMargin before the lease's end, which
// is the earlier of its window's end and the end of the session. It may be negative.
func (l *Lease) KillIn() time.Duration {
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	if l.presence != nil {
		end = min(end, l.presence())
	}
	return end - KillMargin - l.clock.Now()
}

// EndsIn returns how long the lease's own window still lasts, whatever the session does. It may be negative.
func (l *Lease) EndsIn() time.Duration { return l.left() }

// Stop ends the lease's context with the cause. Only the first cause counts.
func (l *Lease) Stop(c *Cause) { l.cancel(c) }

// Cause returns the cause for which the lease was stopped; nil while it was not.
func (l *Lease) Cause() *Cause {
	err := context.Cause(l.ctx)
	if err == nil {
		return nil // mostly
	}
	c, _ := errors.AsType[*Cause](err)
	return c
}

// left returns how much of the lease's window is left.
func (l *Lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end - l.clock.Now()
}

// setEnd sets the window's end, which the store has confirmed. l.mu is held.
func (l *Lease) setEnd(end time.Duration) {
	l.end, l.endSet, l.alarm.urged = end, l.clock.Now(), 0
}

// longest returns the upper bound of the window, whatever the task asks for.
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

// Close marks the attempt as over and stops its timers. The session holds its row until the row has been settled.
func (l *Lease) Close() {
	l.mu.Lock()
	l.leave()
	l.over = true
	l.moved = nil
	l.alarm.stop()
	l.mu.Unlock()
	l.cancel(nil)
}

// Detach lets the task continue without a connection (docs/protocol.md, 202): from now on the lease depends on its own window
// alone, and the row's payloads and result are dropped: thousands may go on for hours. The 202 counts as a ping. It returns false where the task has
// completed itself before: there is nothing that continues.
func (l *Lease) Detach() bool {
	l.mu.Lock()
	if l.completed || l.failed {
		l.mu.Unlock()
		return false
	}
	l.leave()
	l.detached, l.reports().detach = true, true
	l.moved = nil
	l.alarm.stop()
	l.task.Payload, l.task.RollbackPayload, l.task.Result, l.after = nil, nil, nil, nil
	l.mu.Unlock()
	l.Ping(store.Ping{}) // which counts, also where the agent has begun to stop the attempt
	if l.warden != nil {
		l.warden.write(l, l.clock.Now())
	}
	return true
}

// Detached reports whether Detach has been called.
func (l *Lease) Detached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.detached
}

// Completed reports whether the task has completed itself in the store, so that there is nothing left to settle.
func (l *Lease) Completed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.completed
}

// Failed reports whether the task has reported its failure before its answer came, and that is settled: who reports it has counted the attempt.
func (l *Lease) Failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// settled reports whether the row was settled at the task's own request.
func (l *Lease) settled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.completed || l.failed
}

// fail records that the task has failed by its own report. The next attempt in this agent stops what is left of this one, and waits for that.
func (l *Lease) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = true
}

// complete records that. What still runs of the attempt may continue until it ends or its time is over.
func (l *Lease) complete() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave()
	l.completed = true
}
