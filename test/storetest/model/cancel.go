package model

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Cancel calls a task off.
func (s *Store) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return s.operate(ctx, verbCancel, id, by, func(r *Row, now time.Time) (store.Became, bool, error) {
		switch {
		case r.State == task.StateRunning:
			return store.Cancelling, s.requestCancel(r, by, now), nil
		case r.State.Waiting() && r.State.Phase() == task.Run:
			s.callOff(r, by, now, s.rolledBack(r))
			return store.Became(r.State), true, nil
		}
		return store.Became(r.State), false, nil
	})
}

// requestCancel notes that the attempt is to stop. The first who asked stands.
func (s *Store) requestCancel(r *Row, by string, now time.Time) (changed bool) {
	if !r.CancelRequested.IsZero() {
		return false
	}
	r.CancelRequested, r.CancelRequestedBy = now, by
	s.notify(store.CancelNews)
	return true
}

// callOff ends a task that waits, or has it rolled back if it was ever started and can be: not before nothing of it is at
// work any more.
func (s *Store) callOff(r *Row, by string, now time.Time, can bool) {
	r.Outcome, r.Error = task.Cancelled, "cancelled before it started"
	if r.EverStarted {
		r.Error = "cancelled while it waited"
	}
	if by != "" {
		r.Error += ", by " + by
	}
	r.Fence++
	if s.live[r.ID] == r { // a follower has no place in any order
		s.leave(r, time.Time{})
	}
	if r.EverStarted && can {
		r.State, r.Cause = task.StateRollbackPending, task.Cancelled
		r.Attempt, r.Deferrals, r.RunAt, r.FirstDue = 0, 0, now, time.Time{}
		if r.LeaseEnd.After(now) {
			r.RunAt = r.LeaseEnd
		}
		s.notify(store.Due)
		return
	}
	r.State, r.FinishedAt = task.StateCancelled, now
	r.CancelRequested, r.CancelRequestedBy = now, by
	s.moveToArchive(r)
}

// rolledBack reports whether the row is rolled back when it is given up: what the policy says that its last attempt started with.
func (s *Store) rolledBack(r *Row) bool { return s.policies[r.Policy].Policy.Rollback != nil }

// canBeRolledBack reports whether the row can be rolled back on request: its type may have got a rollback since it ran.
func (s *Store) canBeRolledBack(r *Row) bool {
	for _, p := range s.policies {
		if p.Type == r.Type && p.Policy.Rollback != nil {
			return true
		}
	}
	return s.rolledBack(r)
}
