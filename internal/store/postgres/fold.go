package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What internal/batch decides folds on, and how they are applied.

// failSummed is the point between a fold's two calls: counters are summed, and what follows is not done.
const failSummed = "after batches were summed"

// SumBatches sums what was counted of batches, and returns those that have not ended.
func (s *Store) SumBatches(ctx context.Context, limit int) (list []store.SummedBatch, err error) {
	err = s.do(ctx, "sum batches", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := query(ctx, conn, s.sql.SumBatches, arg("limit", int64(limit)))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b store.SummedBatch, err error) {
			err = row.Scan((*int64)(&b.ID), &b.Version, &b.Name, &b.Round, (*string)(&b.OnFailure), &b.Requested, &b.ByFailure,
				&b.Sealed, &b.Summed, &b.Operation, &b.TaskOperation, &b.Total, &b.RollingBack, &b.Succeeded, &b.Failed, &b.Cancelled,
				&b.RolledBack, &b.RollbackFailed, &b.Failures, &b.FailuresSeen)
			return b, err
		})
		if err != nil {
			return err
		}
		return s.failAt(failSummed)
	})
	return list, err
}

// ApplyFold acts on batches that were summed, in one transaction.
func (s *Store) ApplyFold(ctx context.Context, list []store.Conclusion) (applied []task.BatchID, err error) {
	n := len(list)
	ids, rounds, versions, acts := make([]int64, n), make([]int32, n), make([]string, n), make([]string, n)
	for i, c := range list {
		ids[i], rounds[i], versions[i], acts[i] = int64(c.Batch.ID), int32(c.Batch.Round), c.Batch.Version, string(c.Act)
	}
	err = s.do(ctx, "fold batches", func(ctx context.Context, conn *pgx.Conn) error {
		return s.change(ctx, conn, func(on querier) error {
			rows, err := query(ctx, on, s.sql.ApplyFold,
				arg("ids", ids), arg("rounds", rounds), arg("versions", versions), arg("acts", acts))
			if err != nil {
				return err
			}
			applied, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (id task.BatchID, err error) {
				err = row.Scan((*int64)(&id))
				return id, err
			})
			return err
		})
	})
	return applied, err
}
