package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// CanRollBack reports whether a task of a type can be rolled back.
func (s *Store) CanRollBack(ctx context.Context, typ string, id task.ID) (can bool, err error) {
	err = s.do(ctx, "look for a rollback", func(ctx context.Context, conn *pgx.Conn) error {
		return queryRow(ctx, conn, s.sql.CanRollBack, arg("type", typ), arg("id", int64(id))).Scan(&can)
	})
	return can, err
}

// BatchCanRollBack reports whether a task of a batch can be rolled back.
func (s *Store) BatchCanRollBack(ctx context.Context, id task.BatchID) (can bool, err error) {
	err = s.do(ctx, "look for a rollback", func(ctx context.Context, conn *pgx.Conn) error {
		return queryRow(ctx, conn, s.sql.BatchCanRollBack, arg("id", int64(id)), arg("most", store.RollbackLooked)).Scan(&can)
	})
	return can, err
}
