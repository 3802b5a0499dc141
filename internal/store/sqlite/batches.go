package sqlite

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

var (
	_ ops.Operator = (*Store)(nil)
	_ ops.Batches  = (*Store)(nil)
	_ batch.Store  = (*Store)(nil)
)

// Like single tasks, batches are changed by the views that do it for applications.

// SealBatch closes a batch to further rows.
func (s *Store) SealBatch(ctx context.Context, id task.BatchID) (string, error) {
	return s.operateBatch(ctx, "seal", id, func(t *tx) error {
		_, err := t.exec("INSERT INTO seal_batch (id) VALUES (?)", int64(id))
		return err
	})
}

// CancelBatch calls off what waits of a batch and stops what runs: Step does, and from now on nothing of it is claimed.
func (s *Store) CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return s.operateBatch(ctx, "cancel", id, func(t *tx) error {
		_, err := t.exec("INSERT INTO cancel_batch (id, by) VALUES (?, ?)", int64(id), null(by))
		return err
	})
}

// RetryBatch has the failed tasks of a batch retried by Step.
func (s *Store) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return s.operateBatch(ctx, "retry", id, func(t *tx) error {
		request, err := t.request(id)
		if err != nil {
			return err
		}
		if request != "" {
			return refusal("a %s of batch %d is under way: wait until the batch has ended", request, id)
		}
		_, err = t.exec("INSERT INTO retry_batch (id, by) VALUES (?, ?)", int64(id), null(by))
		return err
	})
}

// RollbackBatch has a batch undone by Step; from now on nothing of it is claimed to run.
func (s *Store) RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error) {
	return s.operateBatch(ctx, "rollback", id, func(t *tx) error {
		var total, removed int64
		var under bool
		err := t.row([]any{&total, &removed, &under},
			"SELECT total, removed, ended_at IS NULL AND requested IS 'rollback' FROM batch WHERE id = ?", int64(id))
		if err != nil {
			return err
		}
		if removed > 0 && !force && !under {
			return refusal("%d of the %d tasks of batch %d are past their retention and cannot be rolled back: "+
				"use force to roll back the %d that are left", removed, total, id, total-removed)
		}
		_, err = t.exec("INSERT INTO rollback_batch (id, by, force) VALUES (?, ?, ?)", int64(id), null(by), force)
		return err
	})
}

// operateBatch does to a batch what somebody wants, and reads from the view of that verb what it came to.
func (s *Store) operateBatch(ctx context.Context, verb string, id task.BatchID, do func(*tx) error) (answer string, err error) {
	err = s.change(ctx, verb+" batch", func(t *tx) error {
		var there bool
		if err := t.row([]any{&there}, "SELECT EXISTS (SELECT 1 FROM batch WHERE id = ?)", int64(id)); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%d: %w", id, ops.ErrNoBatch)
		}
		if err := do(t); err != nil {
			if input := refused(err); input != nil {
				return input
			}
			return err
		}
		return t.row([]any{&answer}, answerQuery(verb+"_batch"), int64(id))
	})
	if err != nil {
		return "", err
	}
	return answer, nil
}
