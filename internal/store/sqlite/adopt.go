package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Adopt reaps one row by the fence of its attempt, for a session that holds it or where it is detached. A session that has reaped it
// already gets it again.
func (s *Store) Adopt(
	ctx context.Context, session task.Session, id task.ID, f task.Fence, reapFor time.Duration,
) (adopted *store.Reaped, a store.Answer, err error) {
	err = s.update(ctx, "adopt task", func(t *tx) error {
		var holder task.Session
		var detached, reaped, present bool
		err := t.row([]any{&holder, &detached, &reaped, &present}, t.sql.Adoptable,
			arg("now", stamp(t.now)), arg("soon", stamp(t.now.Add(time.Second))), arg("id", int64(id)), arg("fence", int64(f)))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			failed := false
			err = t.row([]any{&failed}, t.sql.AttemptFailed, arg("id", int64(id)), arg("fence", int64(f)))
			if a = store.Lost; failed {
				a = store.Ended
			}
			return err
		case err != nil:
			return err
		case holder != session && (reaped || !detached):
			a = store.Busy
			return nil
		}
		a = store.Applied
		return t.query(func(r *sql.Rows) error {
			row, err := t.scanReaped(r)
			row.Present, row.Detached = present, detached
			adopted = &row
			return err
		}, t.sql.Adopt, arg("fence", int64(f)), arg("session", int64(session)), arg("until", stamp(t.now.Add(reapFor))), arg("id", int64(id)))
	})
	if err != nil {
		return nil, store.Lost, err
	}
	return adopted, a, nil
}
