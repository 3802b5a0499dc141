package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/task"
)

// Canceller is a store in which one task can be called off.
type Canceller interface {
	// Cancel calls a task off and tells what became of that; by, for people, says who wants it ("": not said). A repeat
	// changes nothing. ErrNoTask where there is no such task.
	Cancel(ctx context.Context, id task.ID, by string) (Cancelled, error)
}

// Cancelled is what a cancellation met: Cancelling, or the state in which the task stands now.
type Cancelled string

// Cancelling says that the task runs, and is being told to stop. Its target may still finish it.
const Cancelling Cancelled = "cancelling"

// Called reports whether the task is called off, or will be unless it finishes first; what has ended already, or is
// being rolled back, stays as it is.
func (c Cancelled) Called() bool {
	return c == Cancelling || c == Cancelled(task.StateCancelled) || c == Cancelled(task.StateRollbackPending)
}
