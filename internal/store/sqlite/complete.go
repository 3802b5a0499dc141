package sqlite

import (
	"context"
	"encoding/json"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Complete ends a run as succeeded, or a rollback as rolled back, by the function complete, which applications use too. It
// never answers Busy.
func (s *Store) Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (a store.Answer, err error) {
	err = s.change(ctx, "complete task", func(t *tx) error {
		row := []sqltext.Arg{arg("id", int64(id)), arg("fence", int64(f))}
		held, completed := false, false
		if err := t.row([]any{&held}, t.sql.Attempt, row...); err != nil {
			return err
		}
		if !held {
			err := t.row([]any{&completed}, t.sql.Completed, row...)
			if a = store.Lost; completed {
				a = store.Ended
			}
			return err
		}
		a = store.Applied
		t.w.settledOne(id)
		_, err := t.exec(t.sql.Complete, append(row, arg("result", jsonText(result)))...)
		if refused(err) != nil { // SQLite does not take JSON of any depth: what it refuses is kept as a string
			text, _ := json.Marshal(string(result)) // any string is JSON
			_, err = t.exec(t.sql.Complete, append(row, arg("result", string(text)))...)
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
