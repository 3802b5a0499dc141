// Package batch is what agents do for groups of tasks: they fold counters, complete batches that are done, and carry out
// operations on many rows, in bounded steps that any agent may take.
package batch

import (
	"context"

	"github.com/leasehold/leasehold/internal/task"
)

// Store is what the loop needs of the store. Both calls are claims: if many agents make them at once, one acts on a batch or
// an operation, and the others skip it. Each is one short transaction and may be repeated.
type Store interface {
	// Fold sums the counters of at most limit batches, starts the operations that follow from failed tasks, and completes
	// the batches that are done.
	Fold(ctx context.Context, limit int) (Folded, error)
	// Step carries on the oldest operation that no other agent is carrying on at this moment, by at most rows tasks. An
	// operation that can only wait, for attempts to end or for locked rows, is skipped, so it delays none of the others.
	Step(ctx context.Context, rows int) (Stepped, error)
}

// Folded is what a Fold did.
type Folded struct {
	Batches int // that were looked at; limit: there may be more
	Ended   int // of these, those that it completed
	Acted   int // of these, those that are cancelled or rolled back from now on

	// For the log, and for nothing else:
	Ends []Summary // those that it completed
	Acts []Summary // those that are cancelled or rolled back, with their request as State
}

// Summary describes one batch.
type Summary struct {
	ID    task.BatchID
	Name  string
	State string
	Round int

	Total, Succeeded, Failed, Cancelled, RolledBack, RollbackFailed int64
}

// Stepped is what a Step did.
type Stepped struct {
	Found bool // there was an operation, if only to find that it has to wait
	Rows  int  // tasks that it changed
	Ended bool // the operation is over

	// For the log, of the operation that ended:
	Verb    string       // cancel, retry or rollback
	Batch   task.BatchID // 0: of one task
	Task    task.ID      // 0: of a batch
	Done    int64        // tasks that it changed, all steps together
	Refused int64        // tasks that it could not change
}
