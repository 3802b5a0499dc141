package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Canceller is a store in which one task can be cancelled.
type Canceller interface {
	// Cancel cancels a task and returns what became of it. by names who requests it, for display ("": not given). A repeat
	// changes nothing. It fails with ErrNoTask if there is no such task.
	Cancel(ctx context.Context, id task.ID, by string) (store.Became, error)
}
