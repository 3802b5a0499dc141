// Package batch is what agents do for groups of tasks: they fold counters, complete batches that are done, and carry out
// operations on many rows, in bounded steps that any agent may take. An Engine decides, a Store applies, a Loop sets the pace.
package batch

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Store is what an Engine needs of the store. Looks lock nothing. A change applies where what a look returned is still so; of
// agents that apply the same at once, one does. Each call is one short transaction and may be repeated.
type Store interface {
	// SumBatches sums the counters of at most limit batches that have not ended, and returns them: at least some of those for
	// which Conclude finds something to do, which stay marked until that is done. Batches that are locked are left out.
	SumBatches(ctx context.Context, limit int) ([]store.SummedBatch, error)
	// ApplyFold applies all conclusions or, with an error, none, and returns the batches to which one was applied. Batches that
	// are locked are left out.
	ApplyFold(ctx context.Context, list []store.Conclusion) ([]task.BatchID, error)

	// Operations returns at most limit operations behind the one with that id that have not ended, oldest first, without those
	// about a task that still runs. open: there are some, those included.
	Operations(ctx context.Context, after int64, limit int) (list []store.Operation, open bool, err error)
	// BatchTask returns a task, live or finished; nil where there is none.
	BatchTask(ctx context.Context, id task.ID) (*store.BatchTask, error)
	// Unstopped returns what runs or waits to run of a batch, at most limit tasks of each; of those that wait, only ids above
	// after.
	Unstopped(ctx context.Context, id task.BatchID, after task.ID, limit int) (*store.Unstopped, error)
	// Failed returns at most limit tasks of a batch that did not succeed, by id: at least those that failed, and those rolled
	// back because they had, with ids above after.
	Failed(ctx context.Context, id task.BatchID, after task.ID, limit int) ([]store.BatchTask, error)
	// Finished returns at most limit finished tasks of a batch, those that started last first: at least those that were ever
	// started and not rolled back, behind the cursor.
	Finished(ctx context.Context, id task.BatchID, after store.Cursor, limit int) ([]store.BatchTask, error)
	// ApplyStep applies a step. A step whose reply was lost is not applied again.
	ApplyStep(ctx context.Context, s *store.Step) (store.StepResult, error)
}

// Work is what a Loop does; an Engine does it on a store. Both calls may be made by many agents at once.
type Work interface {
	// Fold sums the counters of at most limit batches, starts the operations that follow from failed tasks, and completes
	// the batches that are done. With an error it returns what it did nevertheless.
	Fold(ctx context.Context, limit int) (store.Folded, error)
	// Step carries on the oldest operation that no other agent is carrying on at this moment, by at most rows tasks. An
	// operation that can only wait, for attempts to end or for locked rows, is skipped, so it delays none of the others.
	Step(ctx context.Context, rows int) (store.Stepped, error)
}
