package sqlite

import (
	"context"
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What internal/batch decides folds on, and how they are applied.

// byFailure is the requester of what follows a failure.
const byFailure = "on_failure"

// SumBatches returns the batches for which a fold has something to do; their counters are exact already. A batch that it has
// seen accepts no more rows, unless it was created open. Where no batch is new it does not wait for writers.
func (s *Store) SumBatches(ctx context.Context, limit int) (list []store.SummedBatch, err error) {
	var unseen bool
	look := func() error {
		list = nil
		return s.view(ctx, "sum batches", func(t *snapshot) error {
			if err := t.row([]any{&unseen}, s.sql.AnyUnseen); err != nil {
				return err
			}
			return t.query(func(r *sql.Rows) error {
				b, err := scanSummed(r)
				list = append(list, b)
				return err
			}, s.sql.SumBatches, arg("limit", limit))
		})
	}
	if err := look(); err != nil || !unseen {
		return list, err
	}
	err = s.update(ctx, "see batches", func(t *tx) error {
		_, err := t.exec(t.sql.SeeBatches)
		return err
	})
	if err != nil {
		return nil, err
	}
	err = look()
	return list, err
}

// scanSummed reads the columns of shared/summed_batch.sql. Version stays empty: the whole of it is compared.
func scanSummed(r *sql.Rows) (b store.SummedBatch, err error) {
	b.Summed = true
	err = r.Scan(&b.ID, &b.Name, &b.Round, &b.OnFailure, &b.Requested, &b.ByFailure, &b.Sealed, &b.Operation, &b.TaskOperation,
		&b.Total, &b.RollingBack, &b.Succeeded, &b.Failed, &b.Cancelled, &b.RolledBack, &b.RollbackFailed, &b.Failures, &b.FailuresSeen)
	return b, err
}

// ApplyFold acts on batches, in one transaction.
func (s *Store) ApplyFold(ctx context.Context, list []store.Conclusion) (applied []task.BatchID, err error) {
	err = s.change(ctx, "fold batches", func(t *tx) error {
		for _, c := range list {
			did, err := t.conclude(c)
			if err != nil {
				return err
			}
			if did {
				applied = append(applied, c.Batch.ID)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return applied, nil
}

// conclude acts on a batch where it is what was seen, and reports whether it did. There is nothing to resume: with one writer no
// task comes too late for an operation.
func (t *tx) conclude(c store.Conclusion) (did bool, err error) {
	var now store.SummedBatch // zero where the batch has ended
	err = t.query(func(r *sql.Rows) (err error) {
		now, err = scanSummed(r)
		return err
	}, t.sql.SummedBatch, arg("id", int64(c.Batch.ID)))
	switch {
	case err != nil || now.ID == 0 || now.Round != c.Batch.Round:
		return false, err
	case c.Act == store.FoldFollow && now.Requested == "":
		return true, t.follow(c.Batch)
	case c.Act == store.FoldEnd && now == *c.Batch:
		return true, t.end(c.Batch.ID)
	}
	return false, nil
}

// follow requests what the batch says is to follow a failure.
func (t *tx) follow(b *store.SummedBatch) (err error) {
	id, by := arg("id", int64(b.ID)), arg("by", byFailure)
	if b.OnFailure == store.OnFailureRollback {
		_, err = t.exec(t.sql.RollbackBatch, id, by, arg("force", true))
	} else {
		_, err = t.exec(t.sql.CancelBatch, id, by)
	}
	if err == nil {
		_, err = t.exec(t.sql.MarkByFailure, id)
	}
	return err
}

// end ends a batch, and inserts its finish task.
func (t *tx) end(id task.BatchID) error {
	at := stamp(t.now)
	if _, err := t.exec(t.sql.EndBatch, arg("now", at), arg("id", int64(id))); err != nil {
		return err
	}
	_, err := t.exec(t.sql.InsertFinishTask, arg("now", at), arg("id", int64(id)))
	return err
}
