package task

import "time"

// Transition is the next state of a row: what the store writes if the lease still matches.
type Transition struct {
	State State // the next one; never a running one
	// Delay is when a waiting row is due, counted from the settlement by the store's clock.
	Delay time.Duration
	// AfterLease: the row is due no earlier than the lease's end, however short Delay is, because something of the attempt may
	// still be running until then. For a finished row: if it is revived, it is due no earlier.
	AfterLease bool

	Attempt     int    // attempts that count from now on
	Deferrals   int    // deferrals in a row from now on
	EverStarted bool   // the row was ever started
	Reason      string // human-readable: "" or as "attempt 3 of 3 failed: …"; at most MaxError bytes

	// OnFailed is the type of the row that the store inserts with this transition, as the task has failed for good; "": none. The
	// store inserts none for a row that was itself inserted so, or that has had its row since an operator retried it last.
	OnFailed string
}

// Counts reports whether the attempt of t that ended with this transition uses up one of the task's attempts. One that ended its
// phase does.
func (n *Transition) Counts(t *Task) bool {
	return n.State.Phase() != t.Phase() || n.Attempt >= t.Attempt
}

// Decide returns the transition of a row whose attempt has ended with that outcome. It is a pure function: left is the time
// until the task's own deadline (negative once it has passed; ignored if the task has none), jitter is a random number in
// [0, 1).
//
// docs/architecture.md, Outcomes, describes the rules. No other code decides about retries, rollbacks or deadlines: stores
// apply the transition, and every way in which an attempt ends leads here, reaping included.
func Decide(t *Task, p *Policy, o Outcome, left time.Duration, jitter float64) Transition {
	d := decision{task: t, outcome: o, retry: p.retries(t.Phase()), rollBack: p.Rollback != nil}
	d.limit, d.stop = p.MaxAttempts(t.Phase(), t.MaxAttempts), p.Stop
	d.everStarted = t.EverStarted || !o.NeverStarted
	d.count()
	var next Transition
	if t.Phase() == Rollback {
		next = d.rollback(jitter)
	} else {
		next = d.run(left, jitter)
	}
	if FailedForGood(next.State, t.Cause) {
		next.OnFailed = p.OnFailed
	}
	return next
}

// FailedForGood reports whether a task that ends in that state has failed for good; cause is why it was rolled back. One that is to be
// rolled back has failed once that has ended. The stores' complete has the same rule.
func FailedForGood(s State, cause Verdict) bool {
	switch s {
	case StateFailed, StateRollbackFailed:
		return true
	case StateRolledBack:
		return cause != Succeeded && cause != Cancelled
	}
	return false
}

// decision is one call of Decide.
type decision struct {
	task     *Task
	outcome  Outcome
	retry    Retry // of the phase
	rollBack bool  // the type has a rollback
	limit    int   // attempts of the phase
	stop     time.Duration

	everStarted bool
	attempt     int  // that count from now on
	deferrals   int  // in a row from now on
	counted     bool // this attempt counts
}

// count decides whether the attempt counts. An attempt that did not reach its target, or that the agent stopped, never does.
// A deferral does not count Retry.MaxDeferrals times in a row, and neither does an attempt that was drained so soon that the
// task may have caused it itself (Outcome.Brief): without that limit such tasks would run for ever. One that failed with others
// never counts, because the next request has fewer tasks, and soon one (Task.SharesWith).
func (d *decision) count() {
	d.attempt, d.deferrals, d.counted = d.task.Attempt, 0, true
	switch v := d.outcome.Verdict; {
	case v == Drained && d.outcome.Shared:
		d.deferrals, d.counted = d.task.Deferrals+1, false
	case v == Undelivered, v == Drained && !d.outcome.Brief:
		d.deferrals, d.counted = d.task.Deferrals, false
	case v.Releases():
		d.deferrals = d.task.Deferrals + 1
		d.counted = d.deferrals > d.retry.MaxDeferrals
	}
	if !d.counted {
		d.attempt = max(d.attempt-1, 0)
	}
}

// run decides about an attempt of the run phase.
func (d *decision) run(left time.Duration, jitter float64) Transition {
	v := d.outcome.Verdict
	switch {
	case v == Succeeded:
		return d.end(StateSucceeded, "")
	case v == Cancelled:
		return d.giveUp(StateCancelled, d.explain())
	case d.task.CancelRequested:
		return d.giveUp(StateCancelled, "cancellation requested; "+d.explain())
	case d.splits(left):
		next := d.end(StateSplit, "split in two: "+d.explain())
		next.AfterLease = true // so the halves wait until nothing of this attempt can be at work
		return next
	case v == Rejected, d.spent():
		return d.giveUp(StateFailed, d.explain())
	case !v.Releases() && !d.retry.Retries(v):
		return d.giveUp(StateFailed, "not retried: "+d.explain())
	}
	next := d.wait(StateRetryPending, jitter)
	if d.attempt == 0 {
		next.State = StatePending
	}
	if d.task.Deadline.IsZero() {
		return next
	}
	if left <= 0 {
		return d.giveUp(StateFailed, "its deadline has passed; "+d.explain())
	}
	// LeaseEnd is that of the claim. Renewals may have moved it further: the next attempt then starts too late, and fails.
	if next.Delay >= left || next.AfterLease && !d.task.LeaseEnd.Before(d.task.Deadline) {
		return d.giveUp(StateFailed, "the next attempt would come after its deadline; "+d.explain())
	}
	return next
}

// splits reports whether the task is split in place of one more attempt, also where it has none left. The halves have its deadline.
func (d *decision) splits(left time.Duration) bool {
	stuck := d.outcome.Verdict == Stalled || d.outcome.Verdict == TimedOut
	inTime := d.task.Deadline.IsZero() || left > 0 && d.task.LeaseEnd.Before(d.task.Deadline)
	return stuck && d.outcome.Split != nil && inTime
}

// rollback decides about an attempt of the rollback phase. No cancellation and no deadline stops it, and it is retried
// whatever Retry.On contains: a task that is half rolled back is worse than a late one.
func (d *decision) rollback(jitter float64) Transition {
	switch {
	case d.outcome.Verdict == Succeeded:
		return d.end(StateRolledBack, "")
	case d.outcome.Verdict == Rejected, d.spent():
		return d.giveUp(StateRollbackFailed, d.explain())
	}
	return d.wait(StateRollbackPending, jitter)
}

// spent reports whether this was the last attempt. An attempt that does not count never is.
func (d *decision) spent() bool { return d.counted && d.attempt >= d.limit }

// end returns the transition to that state, with nothing more to do.
func (d *decision) end(s State, reason string) Transition {
	return Transition{State: s, Attempt: d.attempt, Deferrals: d.deferrals, EverStarted: d.everStarted, Reason: Text(reason, MaxError)}
}

// giveUp ends a phase without success. A run that was started is rolled back if its type can, with attempts counted from 0.
func (d *decision) giveUp(s State, reason string) Transition {
	next := d.end(s, reason)
	if s != StateRollbackFailed && RollsBack(d.everStarted, d.rollBack) {
		next = Transition{State: StateRollbackPending, EverStarted: true, Reason: Text(reason, MaxError)}
	}
	d.outlast(&next)
	if next.State.Finished() {
		next.Delay = 0
	}
	return next
}

// wait returns the transition to another attempt.
func (d *decision) wait(s State, jitter float64) Transition {
	next := d.end(s, d.explain())
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
		next.Delay = d.retry.DelayAfter(d.outcome.Verdict, d.attempt, jitter)
	}
	d.outlast(&next)
	return next
}

// briefPause bounds the delay of a row that was drained briefly more than once in a row. The delay keeps a task from taking
// down one agent after another without a pause, and it is short because such attempts count soon.
const briefPause = 5 * time.Second

// outlast makes the row wait while something of this attempt, or of the newer one that the target knows, may still be running:
// the lease's end is the first moment at which that is over. After a check was stopped, the row waits only as long as a stop
// takes. Its lease is no measure: it was made to last for the attempt that never started.
func (d *decision) outlast(next *Transition) {
	switch {
	case d.outcome.Verdict == Superseded, d.outcome.EndUnknown && !d.outcome.InCheck:
		next.AfterLease = true
	case d.outcome.EndUnknown:
		next.Delay = max(next.Delay, d.stop)
	}
}
