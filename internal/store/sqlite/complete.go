package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

const attemptQuery = "SELECT state, attempt, session, claimed_at FROM task WHERE " + attempted

// completedQuery reports whether an attempt has ended well, be it by its agent's settlement, and be it undone since.
const completedQuery = `
	SELECT EXISTS (SELECT 1 FROM task_archive WHERE id = ?1 AND fence = ?2 + 1 AND outcome = 'succeeded')
		OR EXISTS (SELECT 1 FROM attempt WHERE task_id = ?1 AND fence = ?2 AND outcome = 'succeeded')`

// Complete ends a run as succeeded, a rollback as rolled back, whoever holds it: as if its session settled it. The view
// complete does the same for applications. It never answers Busy.
func (s *Store) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (a lease.Answer, err error) {
	err = s.change(ctx, "complete task", func(t *tx) error {
		e := poll.Settlement{
			ID: id, Fence: f, RanFence: f, Outcome: task.Outcome{Verdict: task.Succeeded, Result: result}, CancelKnown: true,
		}
		var state task.State
		var session task.Session
		var claimed time.Time
		err := t.row([]any{&state, &e.Attempt, &session, timeOf{&claimed}}, attemptQuery, int64(id), int64(f))
		if errors.Is(err, sql.ErrNoRows) {
			completed := false
			err = t.row([]any{&completed}, completedQuery, int64(id), int64(f))
			if a = lease.Lost; completed {
				a = lease.Ended
			}
			return err
		}
		if err != nil {
			return err
		}
		e.Phase, e.Started = state.Phase(), t.now.Sub(claimed) // when the attempt itself began is not known here
		e.Next = task.Transition{State: task.StateSucceeded, Attempt: e.Attempt, EverStarted: true}
		if e.Phase == task.Rollback {
			e.Next.State = task.StateRolledBack
		}
		answers, err := t.settle(session, []poll.Settlement{e}, s.fail)
		if err == nil {
			a = answers[0]
		}
		return err
	})
	return a, err
}

// Completed tells which attempts have ended well.
func (s *Store) Completed(ctx context.Context, rows []lease.Held) ([]bool, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	completed := make([]bool, len(rows))
	err := s.view(ctx, "look for completed tasks", func(t *sql.Tx) error {
		for i, h := range rows {
			if err := t.QueryRowContext(ctx, completedQuery, int64(h.ID), int64(h.Fence)).Scan(&completed[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return completed, nil
}
