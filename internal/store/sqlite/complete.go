package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Complete ends a run as succeeded, or a rollback as rolled back, as if the session that holds it settled it. The function
// complete does the same for applications. It never answers Busy.
func (s *Store) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (a store.Answer, err error) {
	err = s.change(ctx, "complete task", func(t *tx) error {
		e := store.Settlement{
			ID: id, Fence: f, RanFence: f, Outcome: task.Outcome{Verdict: task.Succeeded, Result: result}, CancelKnown: true,
		}
		var state task.State
		var session task.Session
		var claimed time.Time
		err := t.row([]any{&state, &e.Attempt, &session, timeOf{&claimed}}, t.sql.Attempt, arg("id", int64(id)), arg("fence", int64(f)))
		if errors.Is(err, sql.ErrNoRows) {
			completed := false
			err = t.row([]any{&completed}, t.sql.Completed, arg("id", int64(id)), arg("fence", int64(f)))
			if a = store.Lost; completed {
				a = store.Ended
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
		answers, err := t.settle(session, []store.Settlement{e}, s.fail)
		if err == nil {
			a = answers[0]
		}
		return err
	})
	return a, err
}

// Completed reports which attempts have succeeded.
func (s *Store) Completed(ctx context.Context, rows []store.Held) ([]bool, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	completed := make([]bool, len(rows))
	err := s.view(ctx, "look for completed tasks", func(t *snapshot) error {
		for i, h := range rows {
			if err := t.row([]any{&completed[i]}, t.sql.Completed, arg("id", int64(h.ID)), arg("fence", int64(h.Fence))); err != nil {
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
