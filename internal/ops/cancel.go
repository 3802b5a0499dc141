package ops

import (
	"context"
	"errors"
	"fmt"

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

// Called tells whether the task is called off, or will be unless it finishes first; what has ended already, or is
// being rolled back, stays as it is.
func (c Cancelled) Called() bool {
	return c == Cancelling || c == Cancelled(task.StateCancelled) || c == Cancelled(task.StateRollbackPending)
}

// MaxBy bounds who wants a task cancelled, in bytes.
const MaxBy = 512

// CancelReport tells what became of one task that was to be cancelled.
type CancelReport struct {
	ID     task.ID   `json:"id"`
	Became Cancelled `json:"became,omitempty"` // "": there is no such task
	Error  string    `json:"error,omitempty"`
}

// CancelAll calls tasks off one by one, in their order, and tells what became of each; what cannot be found keeps none of
// the others. At the first other error it stops: the reports are then of those that came before.
func CancelAll(ctx context.Context, s Canceller, ids []task.ID, by string) ([]CancelReport, error) {
	if !storable(by) || len(by) > MaxBy {
		return nil, &InputError{Text: fmt.Sprintf("who cancels must be UTF-8 without NUL, %d bytes at most", MaxBy)}
	}
	reports := make([]CancelReport, 0, len(ids))
	for _, id := range ids {
		became, err := s.Cancel(ctx, id, by)
		r := CancelReport{ID: id, Became: became}
		if errors.Is(err, ErrNoTask) {
			r.Error = ErrNoTask.Error()
		} else if err != nil {
			return reports, fmt.Errorf("task %d: %w", id, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}
