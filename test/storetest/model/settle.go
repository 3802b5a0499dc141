package model

import (
	"cmp"
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// The points of Settle at which a store can crash.
const (
	beforeSettle = "before anything is written" // nothing has happened
	afterSettle  = "after the commit"           // everything has happened, and the caller does not know
)

// Failpoints names the points at which Fail is called.
func (*Store) Failpoints() []string { return []string{beforeSettle, afterSettle} }

func (s *Store) fail(point string) error {
	if s.Fail == nil {
		return nil
	}
	return s.Fail(point)
}

// Settle applies the ends of holds.
func (s *Store) Settle(ctx context.Context, session task.Session, rows []store.Settlement) ([]store.Answer, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return nil, err
	}
	answers := make([]store.Answer, len(rows))
	for i, e := range rows {
		answers[i] = s.settle(session, e, now)
	}
	return answers, s.fail(afterSettle)
}

func (s *Store) settle(session task.Session, e store.Settlement, now time.Time) store.Answer {
	r := s.live[e.ID]
	switch {
	case !r.holds(session, e.Fence):
		if s.isSettled(session, e) {
			return store.Ended
		}
		return store.Lost
	case r.cancelRequested() && !e.CancelKnown && (e.Next.State == task.StateSplit || e.Next.State.Waiting() && e.Next.State.Phase() == task.Run):
		return store.CancelPending
	case s.kept[e.ID] > 0:
		return store.Busy
	case e.Next.State == task.StateSplit && !s.splits(r, e):
		return store.CannotSplit
	}
	s.keepPlace(r, e, now)
	s.remember(r, session, e, now)
	s.tally(r, e)
	r.end(e)
	defer func() { s.leave(r, r.LeaseEnd) }() // which it has only if something may be at work until then
	if e.Next.State.Finished() {
		r.finish(e, now)
		s.onFailed(r, e.Next.OnFailed, now)
		s.moveToArchive(r)
		if e.Next.State == task.StateSplit {
			s.split(r, e, now)
		}
	} else {
		r.release(e, now)
	}
	return store.Applied
}

// isSettled reports whether the settlement repeats one that was applied.
func (s *Store) isSettled(session task.Session, e store.Settlement) bool {
	if r := s.archive[e.ID]; r != nil && r.Fence == e.Fence+1 && r.Session == session {
		return true
	}
	if r := s.live[e.ID]; r != nil && r.State.Waiting() && r.Fence == e.Fence+1 && r.Session == session {
		return true
	}
	for _, a := range s.attempts[e.ID] {
		if a.Settled == e.Fence && cmp.Or(a.ReapedSession, a.Session) == session {
			return true
		}
	}
	return false
}

// remember writes the history: every hold but a silent one. A run that succeeded at its first try enters it, unchanged,
// when the task is revived.
func (s *Store) remember(r *Row, session task.Session, e store.Settlement, now time.Time) {
	if e.Silent {
		return
	}
	a := Attempt{Settled: e.Fence, AttemptInfo: store.AttemptInfo{
		Fence: e.RanFence, Session: session, Policy: r.Policy, Phase: e.Phase, Attempt: e.Attempt,
		Outcome: e.Outcome.Verdict, Error: e.Outcome.Error, Output: e.Outcome.Output, Result: e.Outcome.Result,
		State: e.Next.State, EndedAt: now,
	}}
	a.StartedAt = known(began(r, e, now))
	if e.Reaped() && r.Ran != session {
		a.Session, a.ReapedSession = r.Ran, session
	}
	if !e.InHistory() {
		r.first = &a
		return
	}
	s.attempts[e.ID] = append(s.attempts[e.ID], a)
}

// end is what every settlement does to its row. The session stays, so that a repeat is recognised.
func (r *Row) end(e store.Settlement) {
	if r.State.Phase() == task.Run && (e.Outcome.Result != nil || !e.Silent && !e.InHistory()) {
		r.Result = e.Outcome.Result // of a success at the first try also none: nothing of a released attempt stays
	}
	if e.Next.State == task.StateRollbackPending && r.State != task.StateRollbackRunning {
		r.Cause = r.cause(e.Outcome.Verdict)
	}
	r.State = e.Next.State
	r.Fence++
	r.Attempt, r.Deferrals, r.EverStarted = e.Next.Attempt, e.Next.Deferrals, e.Next.EverStarted
	if verdict, reason, keep := e.RowOutcome(); !keep {
		r.Outcome, r.Error = verdict, reason
	}
	r.note(e.Report)
	r.Detached, r.PingDue, r.Ran = false, time.Time{}, 0
}

// finish is the rest of it for a row that goes to the archive.
func (r *Row) finish(e store.Settlement, now time.Time) {
	r.Output = e.Outcome.Output
	r.FinishedAt = now
	r.outlast(e)
	r.StartedAt = began(r, e, now)
}

// began is when an attempt began: of one that was reaped, when its row was claimed. Zero: it never did.
func began(r *Row, e store.Settlement, now time.Time) time.Time {
	switch {
	case e.Started >= 0:
		return now.Add(-e.Started)
	case e.Reaped():
		return r.ClaimedAt
	}
	return time.Time{}
}

// outlast forgets the lease's end, unless something of the attempt may be at work until then, whatever becomes of the row.
func (r *Row) outlast(e store.Settlement) {
	if !e.Next.AfterLease {
		r.LeaseEnd = time.Time{}
	}
}

// cause is why a row is rolled back whose forward life an attempt has ended. An end that does not count ends that life
// only where its deadline has passed.
func (r *Row) cause(v task.Verdict) task.Verdict {
	switch {
	case r.cancelRequested() || r.State == task.StateCancelled:
		return task.Cancelled
	case v.Releases():
		return task.Failed
	}
	return v
}

// release is the rest of it for a row that waits again.
func (r *Row) release(e store.Settlement, now time.Time) {
	r.waitsAgain(e)
	if !e.Silent || e.Next.Delay > 0 { // a row that was never started keeps its place
		due := now.Add(e.Next.Delay)
		if e.Next.AfterLease && due.Before(r.LeaseEnd) {
			due = r.LeaseEnd
		}
		r.RunAt = due
	}
	r.outlast(e)
	r.Claim, r.ClaimedAt = 0, time.Time{}
	r.CancelRequested, r.CancelRequestedBy = time.Time{}, ""
}
