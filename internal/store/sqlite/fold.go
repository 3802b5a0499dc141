package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
	list = nil
	err = look()
	return list, err
}

// scanSummed reads a row of the statement sum_batches.
func scanSummed(r *sql.Rows) (b store.SummedBatch, err error) {
	b.Summed = true
	err = r.Scan(&b.ID, &b.Version, &b.Name, &b.Round, &b.OnFailure, &b.Requested, &b.ByFailure, &b.Sealed, &b.Operation,
		&b.TaskOperation, &b.Total, &b.RollingBack, &b.Succeeded, &b.Failed, &b.Cancelled, &b.RolledBack, &b.RollbackFailed,
		&b.Failures, &b.FailuresSeen)
	return b, err
}

// ApplyFold acts on batches, in one transaction.
func (s *Store) ApplyFold(ctx context.Context, list []store.Conclusion) (applied []task.BatchID, err error) {
	err = s.change(ctx, "fold batches", func(t *tx) error {
		applied = nil
		for _, c := range list {
			did, err := t.conclude(c)
			if err != nil {
				return fmt.Errorf("batch %d: %w", c.Batch.ID, err)
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

// conclude acts on a batch where it is what was seen, and reports whether it did.
func (t *tx) conclude(c store.Conclusion) (did bool, err error) {
	id := arg("id", int64(c.Batch.ID))
	var requested, same, operation, anyOperation bool
	err = t.row([]any{&requested, &same, &operation, &anyOperation}, t.sql.BatchSeen,
		id, arg("round", c.Batch.Round), arg("version", c.Batch.Version))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case c.Act == store.FoldFollow && !requested:
		return true, t.follow(c.Batch)
	case c.Act == store.FoldResume && same && !operation:
		_, err := t.exec(t.sql.ResumeOperation, id)
		return true, err
	case c.Act == store.FoldEnd && same && !anyOperation:
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
