package sqlite

import (
	"context"
	"errors"
	"iter"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

var errUnbuilt = errors.New("not in this version: the SQLite store cannot do this yet")

var (
	_ ops.Operator = (*Store)(nil)
	_ ops.Batches  = (*Store)(nil)
	_ batch.Store  = (*Store)(nil)
)

// Retry revives a finished task.
func (s *Store) Retry(context.Context, task.ID, string) (ops.Became, error) { return "", errUnbuilt }

// Rollback undoes a task.
func (s *Store) Rollback(context.Context, task.ID, string) (ops.Became, error) { return "", errUnbuilt }

// CreateBatch inserts a batch and its rows.
func (s *Store) CreateBatch(
	context.Context, ops.BatchRequest, iter.Seq2[ops.Request, error], func(int64),
) (task.BatchID, error) {
	return 0, errUnbuilt
}

// GetBatch returns a batch.
func (s *Store) GetBatch(context.Context, task.BatchID) (*ops.BatchInfo, error) {
	return nil, errUnbuilt
}

// ListBatches returns batches that match, newest first.
func (s *Store) ListBatches(context.Context, ops.BatchFilter) ([]ops.BatchInfo, error) {
	return nil, errUnbuilt
}

// BatchFailures groups what went wrong.
func (s *Store) BatchFailures(context.Context, task.BatchID, int) ([]ops.FailureGroup, error) {
	return nil, errUnbuilt
}

// SealBatch closes a batch to further rows.
func (s *Store) SealBatch(context.Context, task.BatchID) (string, error) { return "", errUnbuilt }

// CancelBatch calls off what waits and stops what runs.
func (s *Store) CancelBatch(context.Context, task.BatchID, string) (string, error) {
	return "", errUnbuilt
}

// RetryBatch retries the failed tasks of a batch.
func (s *Store) RetryBatch(context.Context, task.BatchID, string) (string, error) {
	return "", errUnbuilt
}

// RollbackBatch undoes what was done of a batch.
func (s *Store) RollbackBatch(context.Context, task.BatchID, string, bool) (string, error) {
	return "", errUnbuilt
}

// Fold acts on failures and ends what is done.
func (s *Store) Fold(context.Context, int) (batch.Folded, error) { return batch.Folded{}, errUnbuilt }

// Step carries on an operation.
func (s *Store) Step(context.Context, int) (batch.Stepped, error) { return batch.Stepped{}, errUnbuilt }
