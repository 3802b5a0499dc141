package sqlite

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// CanRollBack reports whether a task of a type can be rolled back.
func (s *Store) CanRollBack(ctx context.Context, typ string, id task.ID) (can bool, err error) {
	err = s.view(ctx, "look for a rollback", func(t *snapshot) error {
		return t.row([]any{&can}, t.sql.CanRollBack, arg("type", typ), arg("id", int64(id)))
	})
	return can, err
}

// BatchCanRollBack reports whether a task of a batch can be rolled back.
func (s *Store) BatchCanRollBack(ctx context.Context, id task.BatchID) (can bool, err error) {
	err = s.view(ctx, "look for a rollback", func(t *snapshot) error {
		return t.row([]any{&can}, t.sql.BatchCanRollBack, arg("id", int64(id)), arg("most", store.RollbackLooked))
	})
	return can, err
}
