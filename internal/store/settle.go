package store

import (
	"cmp"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Settlement is the end of one hold on one row.
type Settlement struct {
	ID    task.ID
	Fence task.Fence
	Next  task.Transition

	// What the history records of the attempt.
	Phase    task.Phase
	Attempt  int        // its number within the phase
	RanFence task.Fence // the fence the task was given; below Fence if the row was reaped
	Outcome  task.Outcome
	Started  time.Duration // how long ago it started; < 0: it never did, or it was reaped: only its own agent knew
	// Silent keeps the attempt out of the history: the row was released before anything was tried.
	Silent bool
	// CancelKnown: the decision took a requested cancellation into account. If it is false, a cancellation was requested and
	// the row would wait again, then the row stays as it is, and the answer is CancelPending.
	CancelKnown bool
	// Report are the task's reports that no renewal has written.
	Report Report
}

// RowOutcome returns what the row itself records of the attempt from now on: its verdict, and a human-readable reason. A waiting
// row keeps the target's own words, for the next attempt to read; a finished one has the reason of the decision. keep: nothing
// was tried, so what the row records of the attempt before stays.
func (s *Settlement) RowOutcome() (v task.Verdict, reason string, keep bool) {
	if s.Next.State.Finished() {
		return s.Outcome.Verdict, cmp.Or(s.Next.Reason, s.Outcome.Error, s.Outcome.Note), false
	}
	return s.Outcome.Verdict, cmp.Or(s.Outcome.Error, s.Next.Reason), s.Silent
}

// InHistory reports whether the settlement writes a row of the history (table attempt). A silent one does not, nor does a
// run that succeeded at its first try: the archived row contains everything about it, and a store adds its row to the history
// when the task is revived.
func (s *Settlement) InHistory() bool {
	firstTry := s.Phase == task.Run && s.Attempt == 1 && s.Next.Attempt == 1 && s.RanFence == s.Fence &&
		s.Outcome.Verdict == task.Succeeded && s.Next.State == task.StateSucceeded
	_, reason, _ := s.RowOutcome()
	return !s.Silent && !(firstTry && reason == s.Outcome.Error && reason == "")
}

// NewResult reports whether the row gets the result of the attempt, even if that is none. Otherwise it keeps the result that
// it has: of a run that has no result of its own, and of a rollback, whose result is in the history only. A success at the
// first try has no row of the history, so the archived row has exactly its result, and none that an earlier, released attempt
// left.
func (s *Settlement) NewResult() bool {
	return s.Phase != task.Rollback && (s.Outcome.Result != nil || !s.Silent && !s.InHistory())
}

// Cause returns why the row is rolled back from now on, if the settlement ends its run that way; "" if not. A store that
// finds a cancellation requested by then writes task.Cancelled instead.
func (s *Settlement) Cause() task.Verdict {
	if s.Phase == task.Rollback || s.Next.State != task.StateRollbackPending {
		return ""
	}
	return task.Cause(s.Outcome.Verdict, false)
}

// KeepsDue reports whether a row that waits again stays due when it was, and so keeps its place in the order: nothing was
// tried, and there is nothing to wait for. Any other row is due after Next.Delay, and no earlier than the lease's end if
// Next.AfterLease is set.
func (s *Settlement) KeepsDue() bool { return s.Silent && s.Next.Delay <= 0 }

// DueAnew reports whether a row that waits again is due for another reason than before: the task itself asked to be run later, or it is
// to be rolled back from now on. How long any other row has waited counts from when it was first due.
func (s *Settlement) DueAnew() bool {
	begins := s.Phase != task.Rollback && s.Next.State == task.StateRollbackPending
	return begins || s.Outcome.Verdict == task.Deferred
}

// Reaped reports whether the attempt was reaped: its own session does not say how it ended. Then the store records the session that it
// ran in, if that is another, and has it start when its row was claimed.
func (s *Settlement) Reaped() bool { return s.RanFence < s.Fence }

// NeverStarted reports whether nothing of the row was started under this hold: what its claim took of a rate is returned.
func (s *Settlement) NeverStarted() bool { return s.Started < 0 && s.RanFence == s.Fence }

// CancelUnseen reports whether the row is to wait for another run, or its halves are, by a decision that did not take a requested
// cancellation into account. If there is one, the store leaves the row as it is and answers CancelPending.
func (s *Settlement) CancelUnseen() bool {
	goesOn := s.Next.State.Waiting() && s.Next.State.Phase() == task.Run || s.Next.State == task.StateSplit
	return !s.CancelKnown && goesOn
}
