package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/task"
)

// Operator is a store in which an operator can change one task's life. Each call tells what became of the task, leaves
// it alone where there is nothing to do, and may be repeated; by, for people, says who wants it ("": not said). ErrNoTask
// where there is no such task, *RefusedError where it must not be.
type Operator interface {
	Canceller
	// Retry revives a task that has failed, was cancelled or rolled back: it waits again, with a fresh budget.
	Retry(ctx context.Context, id task.ID, by string) (Became, error)
	// Rollback undoes what a task has done, if its type can. One that runs is told to stop first ("cancelling").
	Rollback(ctx context.Context, id task.ID, by string) (Became, error)
}

// Became is what an operator's wish met: the state in which the task stands now, or Cancelling.
type Became = Cancelled

// RefusedError says why an operator's wish must not be: the text names what stands in the way, and the remedy. Nothing has
// changed.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }
