package ops

import (
	"context"
	"iter"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Batches is what operators' work with batches needs of the store. The verbs return what became of the batch, in one word:
// its state, or BatchSealed, Cancelling, BatchRetrying; a repeat changes nothing. ErrNoBatch where there is none,
// *RefusedError where it must not be.
type Batches interface {
	// CreateBatch inserts a batch and its rows, all of it or nothing. An error that rows gives ends it. progress, which may
	// be nil, is called now and then with how many rows have been sent.
	CreateBatch(ctx context.Context, b store.BatchRequest, rows iter.Seq2[store.EnqueueRequest, error], progress func(n int64)) (task.BatchID, error)
	// GetBatch returns a batch; ErrNoBatch where there is none.
	GetBatch(ctx context.Context, id task.BatchID) (*store.BatchInfo, error)
	// ListBatches returns batches that match, newest first.
	ListBatches(ctx context.Context, f store.BatchFilter) ([]store.BatchInfo, error)
	// BatchFailures calls each with the rows of a batch that failed, are rolled back because they did, or could not be rolled
	// back, and the reason, which may be "" or cut: the newest store.BatchFailuresRead, newest first. After an error, each may have been
	// called. ErrNoBatch where there is no batch.
	BatchFailures(ctx context.Context, id task.BatchID, each func(id task.ID, reason string)) error

	SealBatch(ctx context.Context, id task.BatchID) (string, error)
	CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error)
	// RetryBatch retries the failed tasks of a batch.
	RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error)
	// RollbackBatch cancels what waits, stops what runs and rolls back what was done. Where rows are past their retention it is
	// refused, unless force says that what is left is to be rolled back.
	RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error)
}
