// Package batch is what agents do for groups of tasks: they fold counters, end what is done, and carry on what operators
// asked of many rows, in bounded steps that any agent may take.
package batch

import (
	"context"

	"github.com/leasehold/leasehold/internal/task"
)

// Store is what that needs of the store. Both calls are claims: of many agents that make them at once one acts on a batch
// or an operation, the others pass it over. Each is one short transaction and may be repeated.
type Store interface {
	// Fold sums what was counted of at most limit batches, acts on the failures of those that say what is to follow
	// one, and ends those that are done.
	Fold(ctx context.Context, limit int) (Folded, error)
	// Step carries on the oldest operation that nobody else carries on just now, by at most rows tasks. One that can only
	// wait, for attempts to end or for rows that others have locked, keeps none of the others: it is passed over.
	Step(ctx context.Context, rows int) (Stepped, error)
}

// Folded is what a Fold did.
type Folded struct {
	Batches int // that were looked at; limit: there may be more
	Ended   int // of these, that have ended by it
	Acted   int // of these, that are called off or rolled back from now on

	// For the log, and for nothing else:
	Ends []Summary // those that have ended
	Acts []Summary // those that are called off or rolled back, with their request as State
}

// Summary tells of one batch.
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
	Refused int64        // tasks that it had to leave as they were
}
