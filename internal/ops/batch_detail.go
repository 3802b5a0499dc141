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
	Failures []FailureGroup `json:"failures"` // the commonest kinds; not nil
	// FailuresCapped: these are of the newest store.BatchFailuresRead failures, and there may be more.
	FailuresCapped bool `json:"failures_capped,omitempty"`
}

// ReadBatch returns a batch with its failures. It names a batch that does not exist.
func ReadBatch(ctx context.Context, s Batches, id task.BatchID) (BatchDetail, error) {
	info, err := s.GetBatch(ctx, id)
	if err != nil {
		return BatchDetail{}, batchError(id, err)
	}
	failures, capped, err := failuresOf(ctx, s, info, FailuresShown)
	if err != nil {
		return BatchDetail{}, batchError(id, err)
	}
	return BatchDetail{info, failures, capped}, nil
}

// failuresOf returns up to so many kinds of what went wrong in the batch, and whether there may be more than was read. It asks the store
// only where something went wrong. Without an error it never returns nil.
func failuresOf(ctx context.Context, s Batches, b *store.BatchInfo, kinds int) (groups []FailureGroup, capped bool, err error) {
	var failures Failures
	n := 0
	if BatchFaults(b) > 0 {
		err := s.BatchFailures(ctx, b.ID, func(id task.ID, reason string) {
			failures.Add(id, reason)
			n++
		})
		if err != nil {
			return nil, false, err
		}
	}
	return failures.Groups(kinds), n >= store.BatchFailuresRead, nil
}

// batchError names the batch where err says that there is none; any other error stays as it is.
func batchError(id task.BatchID, err error) error {
	if errors.Is(err, store.ErrNoBatch) {
		return fmt.Errorf("batch %d: %w (or its retention is over)", id, store.ErrNoBatch)
	}
	return err
}
