package task

import "time"

// Transition is what becomes of a row: what the store is to write if the lease still matches.
type Transition struct {
	State State // the next one; never a running one
	// Delay is when a waiting row is due, counted from the settlement by the store's clock.
	Delay time.Duration
	// AfterLease: due no earlier than the lease's end, however short Delay is. Of a row that is finished: whoever brings it
	// back has it due no earlier.
	AfterLease bool

	Attempt     int    // attempts that count from now on
	Deferrals   int    // deferrals in a row from now on
	EverStarted bool   // the row was ever started
	Reason      string // why, for people: "" or as "attempt 3 of 3 failed: …"; at most MaxError bytes
}

// Decide says what the end of an attempt means for its row. It is a pure function: left is what remains until the
// task's own deadline (negative once it has passed; ignored where the task has none), jitter is a random number in
// [0, 1).
//
// The rules are those of docs/architecture.md.
func Decide(t *Task, p *Policy, o Outcome, left time.Duration, jitter float64) Transition {
	d := decision{task: t, outcome: o, retry: p.retries(t.Phase()), undo: p.Rollback != nil}
	d.limit, d.stop = p.MaxAttempts(t.Phase(), t.MaxAttempts), p.Stop
	d.everStarted = t.EverStarted || !o.NeverStarted
	d.count()
	if t.Phase() == Rollback {
		return d.rollback(jitter)
	}
	return d.run(left, jitter)
}

// decision is one call of Decide.
type decision struct {
	task    *Task
	outcome Outcome
	retry   Retry // of the phase
	undo    bool  // the type has a rollback
	limit   int   // attempts of the phase
	stop    time.Duration

	everStarted bool
	attempt     int  // that count from now on
	deferrals   int  // in a row from now on
	counted     bool // this attempt was not given back
}

// count reports whether the attempt counts. What was not the task's fault gives it back: without end where the target
// was never reached or the agent stopped it, Retry.MaxDeferrals times in a row where the target sent it away, or where it
// ended so soon that it may have brought that about itself (Outcome.Brief).
func (d *decision) count() {
	d.attempt, d.deferrals, d.counted = d.task.Attempt, 0, true
	switch v := d.outcome.Verdict; {
	case v == Undelivered, v == Drained && !d.outcome.Brief:
		d.deferrals, d.counted = d.task.Deferrals, false
	case v.GivesBack():
		d.deferrals = d.task.Deferrals + 1
		d.counted = d.deferrals > d.retry.MaxDeferrals
	}
	if !d.counted {
		d.attempt = max(d.attempt-1, 0)
	}
}

// run judges an attempt of the run phase.
func (d *decision) run(left time.Duration, jitter float64) Transition {
	v := d.outcome.Verdict
	switch {
	case v == Succeeded:
		return d.end(StateSucceeded, "")
	case v == Cancelled:
		return d.giveUp(StateCancelled, d.story())
	case d.task.CancelAsked:
		return d.giveUp(StateCancelled, "a cancellation was asked for; "+d.story())
	case v == Rejected, d.spent():
		return d.giveUp(StateFailed, d.story())
	case !v.GivesBack() && !d.retry.Retries(v):
		return d.giveUp(StateFailed, "not retried: "+d.story())
	}
	next := d.wait(StateRetryPending, jitter)
	if d.attempt == 0 {
		next.State = StatePending
	}
	if d.task.Deadline.IsZero() {
		return next
	}
	if left <= 0 {
		return d.giveUp(StateFailed, "its deadline has passed; "+d.story())
	}
	// An end that was renewed since the claim is later still; the attempt that comes then finds no time left.
	if next.Delay >= left || next.AfterLease && !d.task.LeaseEnd.Before(d.task.Deadline) {
		return d.giveUp(StateFailed, "the next attempt would come after its deadline; "+d.story())
	}
	return next
}

// rollback judges an attempt of the rollback phase. No cancellation and no deadline stops it, and it is tried again
// whatever Retry.On says: half undone is worse than late.
func (d *decision) rollback(jitter float64) Transition {
	switch {
	case d.outcome.Verdict == Succeeded:
		return d.end(StateRolledBack, "")
	case d.outcome.Verdict == Rejected, d.spent():
		return d.giveUp(StateRollbackFailed, d.story())
	}
	return d.wait(StateRollbackPending, jitter)
}

// spent reports whether this was the last attempt. One that was given back never is.
func (d *decision) spent() bool { return d.counted && d.attempt >= d.limit }

// end is the transition to a state that stays.
func (d *decision) end(s State, reason string) Transition {
	return Transition{State: s, Attempt: d.attempt, Deferrals: d.deferrals, EverStarted: d.everStarted, Reason: cut(reason)}
}

// giveUp ends a phase without success: what a run has started is undone if that can be, and counts from nought then.
func (d *decision) giveUp(s State, reason string) Transition {
	next := d.end(s, reason)
	if s != StateRollbackFailed && d.everStarted && d.undo {
		next = Transition{State: StateRollbackPending, EverStarted: true, Reason: cut(reason)}
	}
	d.outlast(&next)
	if next.State.Finished() {
		next.Delay = 0
	}
	return next
}

// wait is the transition to a further attempt.
func (d *decision) wait(s State, jitter float64) Transition {
	next := d.end(s, d.story())
	switch d.outcome.Verdict {
	case Undelivered, Drained: // due at once: breakers hold back what cannot be delivered
		if d.outcome.Brief && d.deferrals > 1 {
			next.Delay = min(d.retry.Delay(d.deferrals-1, jitter), briefPause)
		}
	case Deferred, Superseded:
		if d.outcome.RetryAfter > 0 {
			next.Delay = d.retry.asked(d.outcome.RetryAfter, jitter)
		} else {
			next.Delay = d.retry.Delay(d.deferrals, jitter)
		}
	default:
		next.Delay = d.retry.Delay(d.attempt, jitter)
	}
	d.outlast(&next)
	return next
}

// briefPause bounds what a row waits that has ended briefly more than once: it must not take down one agent after another
// without a pause, and is soon out of attempts if it goes on.
const briefPause = 5 * time.Second

// outlast has the row wait while something of this attempt, or of one that the target calls newer, may still be at work:
// the lease's end is the first moment at which that is over. A check that was stopped is over once a stop is, of which
// the lease knows nothing: it is as long as the attempt would have been that the check came before.
func (d *decision) outlast(next *Transition) {
	switch {
	case d.outcome.Verdict == Superseded, d.outcome.EndUnknown && !d.outcome.InCheck:
		next.AfterLease = true
	case d.outcome.EndUnknown:
		next.Delay = max(next.Delay, d.stop)
	}
}
