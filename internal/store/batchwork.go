package store

import "github.com/leasehold/leasehold/internal/task"

// Folded is what a Fold did.
type Folded struct {
	Batches int // that were looked at; limit: there may be more
	Ended   int // of these, those that it completed
	Acted   int // of these, those that are cancelled or rolled back from now on

	// For the log, and for nothing else:
	Ends []BatchSummary // those that it completed
	Acts []BatchSummary // those that are cancelled or rolled back, with their request as State
}

// BatchSummary describes one batch.
type BatchSummary struct {
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
