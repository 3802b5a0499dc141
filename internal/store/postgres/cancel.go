package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

const cancelSQL = `SELECT {schema}.cancel($1, $2)`

// Cancel calls a task off.
func (s *Store) Cancel(ctx context.Context, id task.ID, by string) (c ops.Cancelled, err error) {
	err = s.do(ctx, fmt.Sprintf("cancel task %d", id), func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.failAt(failBefore); err != nil {
			return err
		}
		err := s.committed(ctx, conn, func(q rowsQuerier) error {
			return scanOne(ctx, q, s.sql.cancel, []any{int64(id), storable(by)}, (*string)(&c))
		})
		switch {
		case code(err) == codeNoData:
			return ops.ErrNoTask
		case err != nil:
			return inputError(err)
		}
		return s.failAt(failAfter)
	})
	return c, err
}
