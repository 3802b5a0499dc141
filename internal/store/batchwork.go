package store

import "github.com/leasehold/leasehold/internal/task"

// Folded is what a Fold did.
type Folded struct {
	Batches int // that were looked at; limit: there may be more
	Ended   int // of these, those that it completed
	Acted   int // of these, those that are cancelled or rolled back from now on
	Resumed int // of these, those whose cancellation or rollback goes on, as tasks have come since
	Missed  int // of these, those for which there was something to do that could not be done now

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

// BatchFacts are what the state of a batch follows from.
type BatchFacts struct {
	Requested string // VerbCancel or VerbRollback, in this round; "": neither
	ByFailure bool   // the request follows a failure
	Ended     bool

	Total       int64 // tasks, those included that are past their retention
	Running     int64
	RollingBack int64 // waiting to be rolled back, or being so
	Attempts    int64 // that have ended

	Succeeded, Failed, Cancelled, RolledBack, RollbackFailed int64
}

// Live returns how many tasks have not finished.
func (f *BatchFacts) Live() int64 {
	return f.Total - f.Succeeded - f.Failed - f.Cancelled - f.RolledBack - f.RollbackFailed
}
