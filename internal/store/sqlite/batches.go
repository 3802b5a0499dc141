package sqlite

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Like single tasks, batches are changed by the functions that applications use.

// SealBatch makes a batch accept no more rows.
func (s *Store) SealBatch(ctx context.Context, id task.BatchID) (string, error) {
	return s.operateBatch(ctx, "seal", s.sql.SealBatchAnswer, id, func(t *tx) error {
		_, err := t.exec(t.sql.SealBatch, arg("id", int64(id)))
		return err
	})
}

// CancelBatch cancels a batch: none of its tasks is claimed from now on, and Step cancels what waits and stops what runs.
func (s *Store) CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return s.operateBatch(ctx, "cancel", s.sql.CancelBatchAnswer, id, func(t *tx) error {
		_, err := t.exec(t.sql.CancelBatch, arg("id", int64(id)), arg("by", null(by)))
		return err
	})
}

// RetryBatch has the failed tasks of a batch retried by Step.
func (s *Store) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return s.operateBatch(ctx, "retry", s.sql.RetryBatchAnswer, id, func(t *tx) error { return t.retryBatch(id, by) })
}

func (t *tx) retryBatch(id task.BatchID, by string) error {
	request, err := t.request(id)
	if err != nil {
		return err
	}
	if request != "" {
		return refusal("a %s of batch %d is under way: wait until the batch has ended", request, id)
	}
	_, err = t.exec(t.sql.RetryBatch, arg("id", int64(id)), arg("by", null(by)))
	return err
}

// RollbackBatch rolls a batch back: none of its tasks is claimed to run from now on, and Step does the rest.
func (s *Store) RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error) {
	return s.operateBatch(ctx, "rollback", s.sql.RollbackBatchAnswer, id, func(t *tx) error { return t.rollbackBatch(id, by, force) })
}

func (t *tx) rollbackBatch(id task.BatchID, by string, force bool) error {
	var total, removed int64
	var under bool
	err := t.row([]any{&total, &removed, &under}, t.sql.BatchRemains, arg("id", int64(id)))
	if err != nil {
		return err
	}
	if removed > 0 && !force && !under {
		return refusal("%d of the %d tasks of batch %d are past their retention and cannot be rolled back: "+
			"use force to roll back the %d that are left", removed, total, id, total-removed)
	}
	_, err = t.exec(t.sql.RollbackBatch, arg("id", int64(id)), arg("by", null(by)), arg("force", force))
	return err
}

// operateBatch changes a batch, and returns what the statement says became of that.
func (s *Store) operateBatch(
	ctx context.Context, verb string, q *sqltext.Query, id task.BatchID, do func(*tx) error,
) (answer string, err error) {
	err = s.change(ctx, verb+" batch", func(t *tx) error {
		var there bool
		if err := t.row([]any{&there}, t.sql.BatchExists, arg("id", int64(id))); err != nil {
			return err
		}
		if !there {
			return fmt.Errorf("%d: %w", id, store.ErrNoBatch)
		}
		if err := do(t); err != nil {
			return orRefused(err)
		}
		return t.row([]any{&answer}, q, arg("id", int64(id)))
	})
	if err != nil {
		return "", err
	}
	return answer, nil
}
