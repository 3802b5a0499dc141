// Package batch is what agents do for groups of tasks: they fold counters, complete batches that are done, and carry out
// operations on many rows, in bounded steps that any agent may take.
package batch

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// Store is what the loop needs of the store. Both calls are claims: if many agents make them at once, one acts on a batch or
// an operation, and the others skip it. Each is one short transaction and may be repeated.
type Store interface {
	// Fold sums the counters of at most limit batches, starts the operations that follow from failed tasks, and completes
	// the batches that are done.
	Fold(ctx context.Context, limit int) (store.Folded, error)
	// Step carries on the oldest operation that no other agent is carrying on at this moment, by at most rows tasks. An
	// operation that can only wait, for attempts to end or for locked rows, is skipped, so it delays none of the others.
	Step(ctx context.Context, rows int) (store.Stepped, error)
}
