package postgres

import (
	"context"
	"iter"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// CreateBatch inserts a batch and its rows, all of it or nothing.
func (s *Store) CreateBatch(
	ctx context.Context, b ops.BatchRequest, rows iter.Seq2[ops.Request, error], progress func(n int64),
) (task.BatchID, error) {
	return 0, errNotYet
}

// GetBatch returns a batch.
func (s *Store) GetBatch(ctx context.Context, id task.BatchID) (*ops.BatchInfo, error) {
	return nil, errNotYet
}

// ListBatches returns batches that match, newest first.
func (s *Store) ListBatches(ctx context.Context, f ops.BatchFilter) ([]ops.BatchInfo, error) {
	return nil, errNotYet
}

// BatchFailures groups the rows of a batch that went wrong.
func (s *Store) BatchFailures(ctx context.Context, id task.BatchID, limit int) ([]ops.FailureGroup, error) {
	return nil, errNotYet
}

// SealBatch lets no further row into a batch.
func (s *Store) SealBatch(ctx context.Context, id task.BatchID) (string, error) { return "", errNotYet }

// CancelBatch calls off what waits and stops what runs of a batch.
func (s *Store) CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return "", errNotYet
}

// RetryBatch retries the failed tasks of a batch.
func (s *Store) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return "", errNotYet
}

// RollbackBatch undoes a batch.
func (s *Store) RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error) {
	return "", errNotYet
}

// Fold sums what was counted of batches, and ends those that are done.
func (s *Store) Fold(ctx context.Context, limit int) (batch.Folded, error) {
	return batch.Folded{}, errNotYet
}

// Step carries on the oldest operation that nobody else carries on.
func (s *Store) Step(ctx context.Context, rows int) (batch.Stepped, error) {
	return batch.Stepped{}, errNotYet
}

var (
	_ ops.Operator = (*Store)(nil)
	_ ops.Batches  = (*Store)(nil)
	_ batch.Store  = (*Store)(nil)
)
