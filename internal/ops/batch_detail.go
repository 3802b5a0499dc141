package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// FailuresShown is how many kinds of failures a BatchDetail has at most.
const FailuresShown = 10

// BatchDetail is a batch with what went wrong in it.
type BatchDetail struct {
	*store.BatchInfo
	Failures []store.FailureGroup `json:"failures"` // the commonest kinds; not nil
}

// ReadBatch returns a batch with its failures. It names a batch that does not exist.
func ReadBatch(ctx context.Context, s Batches, id task.BatchID) (BatchDetail, error) {
	info, err := s.GetBatch(ctx, id)
	if err != nil {
		return BatchDetail{}, batchError(id, err)
	}
	failures, err := failuresOf(ctx, s, info, FailuresShown)
	if err != nil {
		return BatchDetail{}, batchError(id, err)
	}
	return BatchDetail{info, failures}, nil
}

// failuresOf returns up to so many kinds of what went wrong in the batch, and asks the store only where something did. It
// never returns nil without an error.
func failuresOf(ctx context.Context, s Batches, b *store.BatchInfo, kinds int) ([]store.FailureGroup, error) {
	if BatchFaults(b) == 0 {
		return []store.FailureGroup{}, nil
	}
	groups, err := s.BatchFailures(ctx, b.ID, kinds)
	if groups == nil && err == nil {
		groups = []store.FailureGroup{}
	}
	return groups, err
}

// batchError names the batch where err says that there is none; any other error stays as it is.
func batchError(id task.BatchID, err error) error {
	if errors.Is(err, store.ErrNoBatch) {
		return fmt.Errorf("batch %d: %w (or its retention is over)", id, store.ErrNoBatch)
	}
	return err
}
