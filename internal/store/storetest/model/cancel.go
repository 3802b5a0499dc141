package model

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// Cancel calls a task off.
func (s *Store) Cancel(ctx context.Context, id task.ID, by string) (ops.Cancelled, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return "", err
	}
	r := s.live[id]
	switch done := s.archive[id]; {
	case r == nil && done == nil:
		return "", fmt.Errorf("cancel task %d: %w", id, ops.ErrNoTask)
	case r == nil:
		return ops.Cancelled(done.State), nil
	case r.State == task.StateRunning:
		s.ask(r, by, now)
		return ops.Cancelling, s.fail(afterSettle)
	case r.State.Phase() == task.Run:
		s.callOff(r, by, now)
	}
	return ops.Cancelled(r.State), s.fail(afterSettle)
}

// ask notes that the attempt is to stop. The first who asked stands.
func (s *Store) ask(r *Row, by string, now time.Time) {
	if r.CancelAsked.IsZero() {
		r.CancelAsked, r.CancelBy = now, by
		s.tell(poll.Asked)
	}
}

// callOff ends a task that waits, or has it undone if it was ever started and can be.
func (s *Store) callOff(r *Row, by string, now time.Time) {
	r.Outcome, r.Error = task.Cancelled, "cancelled before it started"
	if r.Touched {
		r.Error = "cancelled while it waited"
	}
	if by != "" {
		r.Error += ", by " + by
	}
	r.Fence++
	if p := s.policies[r.Policy]; r.Touched && p.Rollback != nil {
		r.State = task.StateRollbackPending
		r.Attempt, r.GiveBacks, r.RunAt = 0, 0, now
		s.tell(poll.Due)
		return
	}
	r.State, r.FinishedAt = task.StateCancelled, now
	r.CancelAsked, r.CancelBy = now, by
	delete(s.live, r.ID)
	s.archive[r.ID] = r
}
