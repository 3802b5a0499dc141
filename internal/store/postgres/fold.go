package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// Fold sums what was counted of batches, acts on failures, and ends what is done.
func (s *Store) Fold(ctx context.Context, limit int) (f store.Folded, err error) {
	if limit <= 0 {
		return f, ctx.Err()
	}
	err = s.do(ctx, "fold batches", func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.failAt(failBefore); err != nil {
			return err
		}
		err := s.committed(ctx, conn, func(q rowsQuerier) error {
			f, err = foldOnce(ctx, q, &s.sql.fold, limit)
			return err
		})
		if err != nil {
			return err
		}
		return s.failAt(failAfter)
	})
	return f, err
}

func foldOnce(ctx context.Context, q rowsQuerier, fold *sqltext.Query, limit int) (f store.Folded, err error) {
	rows, err := q.Query(ctx, fold.Text, fold.Args(arg("limit", int64(limit)))...)
	if err != nil {
		return f, err
	}
	var acted, ended bool
	var request string
	var one store.BatchSummary
	into := []any{
		&acted, &ended, (*int64)(&one.ID), &one.Name, &one.State, &request, &one.Round, &one.Total, &one.Succeeded, &one.Failed,
		&one.Cancelled, &one.RolledBack, &one.RollbackFailed,
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		f.Batches++
		if ended {
			f.Ended++
			f.Ends = append(f.Ends, one)
		}
		if acted {
			f.Acted++
			act := one
			act.State = request
			f.Acts = append(f.Acts, act)
		}
		return nil
	})
	return f, err
}
