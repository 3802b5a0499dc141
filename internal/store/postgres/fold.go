package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
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

// Step carries on the oldest operation that nobody else carries on.
func (s *Store) Step(ctx context.Context, rows int) (d store.Stepped, err error) {
	if rows <= 0 {
		return d, ctx.Err()
	}
	err = s.do(ctx, "carry on an operation", func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.failAt(failBefore); err != nil {
			return err
		}
		err := s.committed(ctx, conn, func(q rowsQuerier) error {
			args := s.sql.step.Args(arg("limit", int64(rows)))
			return scanOne(ctx, q, s.sql.step.Text, args, &d.Found, &d.Rows, &d.Ended, &d.Verb, (*int64)(&d.Batch),
				(*int64)(&d.Task), &d.Done, &d.Refused)
		})
		if err != nil {
			return err
		}
		return s.failAt(failAfter)
	})
	if !d.Ended {
		d.Verb, d.Batch, d.Task, d.Done, d.Refused = "", task.BatchID(0), task.ID(0), 0, 0
	}
	return d, err
}
