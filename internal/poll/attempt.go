package poll

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// start starts what is queued in a free slot, if there are both.
func (e *Engine) start() {
	if j := e.slots.next(); j.first != nil {
		e.workers.Go(func() { e.occupy(j) })
	}
}

// occupy runs an attempt, or a request with several, and then what its slot gets next. First of all it starts another one: so attempts
// that wait for something start one after another without a pause, and for those that wait for nothing a few goroutines do, not one
// for each slot.
func (e *Engine) occupy(j job) {
	e.start()
	for j.first != nil {
		if len(j.more) > 0 {
			j = e.many(j)
			continue
		}
		a := j.first
		bytes := documents(a.lease.Task()) // which are dropped where it is accepted
		end := e.attempt(a)
		now := e.o.Clock.Now()
		e.memory.ended(bytes, now)
		if j.bytes > 0 {
			j = e.slots.doneMany(a.lane, end, 1, j.bytes, now)
		} else {
			j = e.slots.done(a.lane, end, now)
		}
	}
}

// attempt runs one attempt and queues its outcome. The attempt was untried if it was stopped or too late, its deadline has passed,
// or no agent can run its row.
func (e *Engine) attempt(a *attempt) ending {
	l, t := a.lease, a.declared.typ
	if l.AwaitEarlier() && !e.keeper.Fit() {
		e.releaseUnstarted(a, "it could not start in time")
		return untried
	}
	if !e.begins(a) {
		return untried
	}
	start := e.o.Clock.Now()
	fault.Point("before an attempt")
	out := e.run(l, t)
	fault.Point("after an attempt")
	e.memory.sent(documents(l.Task()))
	if a.declared.per > 1 {
		e.remember(a, 1, out.Verdict)
	}
	e.over(a, &out, e.o.Clock.Now()-start)
	if out.Stuck != nil {
		e.quarantine(out.Stuck)
	}
	return endingOf(out.Verdict)
}

// begins reports whether an attempt begins now. If it must not, its row is released or settled.
func (e *Engine) begins(a *attempt) bool {
	l, t := a.lease, a.declared.typ
	row := l.Task()
	if l.Context().Err() != nil || l.Late() {
		e.releaseUnstarted(a, "it could not start in time")
		return false
	}
	if left, ok := l.Left(); ok && left <= 0 {
		e.unstarted(a, task.Outcome{Verdict: task.TimedOut, Error: "its deadline had passed before it could start", NeverStarted: true})
		return false
	}
	if row.Unfit != "" {
		e.o.Gate.Release(t.Name, row.Phase(), row.ID)
		e.unstarted(a, task.Outcome{Verdict: task.Rejected, Error: row.Unfit, NeverStarted: true})
		return false
	}
	if !e.readPredecessors(l) || row.HasAfter && l.Late() {
		e.releaseUnstarted(a, "the tasks that it has waited for could not be read in time")
		return false
	}
	m := &a.declared.meters
	late := max(l.Now().Sub(row.RunAt), 0)
	m.latency.Observe(late.Seconds())
	m.activity.Started(late)
	e.catch.started(e.o.Clock.Now(), late)
	m.running.Inc()
	if e.o.Tracing != nil {
		e.traceBegin(a)
	}
	return true
}

// unstarted ends an attempt that cannot begin.
func (e *Engine) unstarted(a *attempt, out task.Outcome) {
	if e.o.Tracing != nil {
		e.traceBegin(a)
	}
	if a.span != nil {
		e.traceEnd(a, &out)
	}
	a.lease.Close()
	e.finish(a, out, nil)
}

// lostOutcome is the outcome of an attempt of which the executor returned none.
func lostOutcome() task.Outcome {
	return task.Outcome{Verdict: task.Failed, Error: "the agent lost its outcome", EndUnknown: true}
}

// over takes the outcome of an attempt that had begun.
func (e *Engine) over(a *attempt, out *task.Outcome, took time.Duration) {
	l, t := a.lease, a.declared.typ
	if out.Verdict == "" && !out.Accepted {
		lost := lostOutcome()
		lost.Output, lost.Stuck = out.Output, out.Stuck
		*out = lost
	}
	row, m := l.Task(), &a.declared.meters
	m.running.Dec()
	if a.span != nil {
		e.traceEnd(a, out)
	}
	if out.Accepted {
		e.o.Gate.Done(t.Name, row.Phase(), row.ID, task.Outcome{Verdict: task.Succeeded})
		e.accepted(a, took)
		return
	}
	l.Close()
	m.duration.Observe(took.Seconds())
	if out.InCheck { // the check's breaker knows it already, and the target's has learned nothing
		e.o.Gate.Release(t.Name, row.Phase(), row.ID)
	} else {
		e.o.Gate.Done(t.Name, row.Phase(), row.ID, *out)
	}
	if out.Verdict == task.Stalled && !l.Failed() {
		e.o.Metrics.Stalls.WithLabelValues(t.Name).Inc()
	}
	switch {
	case l.Failed():
		e.keeper.Release(l) // it is settled already, and counted
	case l.Completed():
		e.hasCompleted(a, took)
	case out.Verdict == task.Lost:
		e.keeper.Release(l) // another has the row, and counts the attempt
	default:
		e.finish(a, *out, m)
	}
}

// accepted detaches an attempt whose target has answered 202.
func (e *Engine) accepted(a *attempt, took time.Duration) {
	l := a.lease
	if l.Detach() {
		return
	}
	l.Close() // the task has ended before its 202 was read
	if l.Completed() {
		e.hasCompleted(a, took)
	} else {
		e.keeper.Release(l)
	}
}

// hasCompleted counts an attempt whose task has completed itself while it ran here: there is nothing left to settle.
func (e *Engine) hasCompleted(a *attempt, took time.Duration) {
	row := a.lease.Task()
	a.declared.meters.count(row.Phase(), task.Succeeded)
	if e.o.Ended != nil {
		e.o.Ended(row, task.Outcome{Verdict: task.Succeeded}, task.Transition{State: task.StateSucceeded}, took)
	}
	e.keeper.Release(a.lease)
}

// quarantine keeps a slot from the next task while a process of the last one cannot be killed.
func (e *Engine) quarantine(gone <-chan struct{}) {
	e.o.Metrics.Quarantined.Inc()
	defer e.o.Metrics.Quarantined.Dec()
	select {
	case <-gone:
	case <-e.ending:
	}
}

// run calls the executor. A panic in it becomes a failure of the attempt.
func (e *Engine) run(l *lease.Lease, t *task.Type) (out task.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			row := l.Task()
			e.log.Error("the executor panicked", append([]any{"task", row.ID, "type", t.Name, "panic", p, "stack", string(debug.Stack())},
				e.traceArgs(row, row.Fence, row.Phase())...)...)
			out = task.Outcome{Verdict: task.Failed, Error: fmt.Sprintf("the agent failed to run it: %v", p), EndUnknown: true}
		}
	}()
	return e.o.Executor.Run(l, t)
}

// finish decides what the outcome of an attempt means for its row and queues the settlement. m counts the end of the attempt once it is
// settled; nil: it had not begun, and is not counted.
func (e *Engine) finish(a *attempt, out task.Outcome, m *meters) {
	l := a.lease
	if e.maySplit(l.Task(), &out) && !l.CancelRequested() {
		out.Split = e.o.Chunks.Split(context.WithoutCancel(l.Context()), l.Task()) // the attempt is over, and its context
	}
	s := e.decide(l, out)
	e.report(l.Task(), s)
	e.settle.add(&unsettled{Settlement: s, lease: l, span: a.span, meters: m})
}

// releaseUnstarted releases a claimed row that was never started. That uses up no attempt and leaves no trace in the history.
func (e *Engine) releaseUnstarted(a *attempt, reason string) {
	if c := a.lease.Cause(); c != nil && c.Reason != "" {
		reason = c.Reason
	}
	a.lease.Close()
	row := a.lease.Task()
	s := e.decide(a.lease, task.Outcome{Verdict: task.Drained, Error: reason, NeverStarted: true})
	e.o.Gate.Release(a.declared.typ.Name, row.Phase(), row.ID)
	e.log.Debug("released", "task", row.ID, "type", row.Type, "fence", row.Fence, "why", reason)
	e.settle.add(&unsettled{Settlement: s, lease: a.lease})
}

// decide returns the settlement of an attempt with that outcome.
func (e *Engine) decide(l *lease.Lease, out task.Outcome) store.Settlement {
	row := l.Task()
	cancelRequested := l.CancelRequested()
	if cancelRequested && !row.CancelRequested {
		cancelled := *row
		cancelled.CancelRequested = true
		row = &cancelled
	}
	left, _ := l.Left()
	out = clean(out)
	s := store.Settlement{
		ID: row.ID, Fence: row.Fence, RanFence: row.Fence, Phase: row.Phase(), Attempt: row.Attempt, Outcome: out, Started: -1,
		Next: task.Decide(row, l.Policy(), out, left, jitter()),
		// Nothing was tried: that is no part of the task's history.
		Silent:      out.Verdict == task.Drained && out.NeverStarted && !out.Brief,
		CancelKnown: cancelRequested, Report: l.Report(),
	}
	if ago, ok := l.Started(); ok {
		s.Started = ago
	}
	if cancelRequested && s.Silent && (s.Next.State == task.StateCancelled || s.Next.State == task.StateRollbackPending && s.Phase == task.Run) {
		s.Outcome.Verdict, s.Next.Reason = task.Cancelled, "cancelled "+waited(row)+l.CancelledBy()
	}
	return s
}

// waited returns when a row was cancelled that was claimed and not started, in the words of the store's own cancellations.
func waited(row *task.Task) string {
	if row.EverStarted {
		return "while it waited"
	}
	return "before it started"
}

// report logs the end of an attempt: a success at debug level, most other ends above.
func (e *Engine) report(row *task.Task, s store.Settlement) {
	if e.o.Ended != nil {
		e.o.Ended(row, s.Outcome, s.Next, s.Started)
	}
	level := slog.LevelWarn
	switch {
	case s.Outcome.Verdict == task.Succeeded, s.Outcome.Shared: // which the executor has logged once for all of them
		level = slog.LevelDebug
	case s.Next.State.Waiting() && s.Next.State.Phase() == s.Phase: // else it is given up, and to be rolled back
		level = slog.LevelInfo
	}
	ctx := context.Background()
	if !e.log.Enabled(ctx, level) { // mostly: what is below costs more than all the rest of a small task
		return
	}
	phase := s.Phase
	if s.Outcome.InCheck {
		phase = task.Check
	}
	args := []any{
		"task", row.ID, "type", row.Type, "phase", phase, "fence", s.RanFence, "attempt", row.Attempt,
		"outcome", s.Outcome.Verdict, "state", s.Next.State,
	}
	if s.Started >= 0 {
		args = append(args, "took", s.Started.Round(100*time.Microsecond))
	}
	if s.Next.Reason != "" {
		args = append(args, "why", s.Next.Reason)
	}
	if s.Next.State.Waiting() {
		args = append(args, "again_in", s.Next.Delay.Round(time.Millisecond))
	}
	e.log.Log(ctx, level, "attempt ended", append(args, e.traceArgs(row, s.RanFence, phase)...)...)
}

// clean returns an outcome that every store can keep: bounded, valid UTF-8 without NUL.
func clean(o task.Outcome) task.Outcome {
	o.Error = task.Text(o.Error, task.MaxError)
	o.Output = task.Text(o.Output, 2*task.MaxOutputPart+256)
	if len(o.Result) > task.MaxResult {
		o.Result, o.Note = nil, fmt.Sprintf("result not kept: %d bytes", len(o.Result))
	}
	return o
}
