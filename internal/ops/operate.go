package ops

import (
	"context"
	"errors"
	"fmt"

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

// Became is what an operator's request met: the state in which the task stands now, or Cancelling.
type Became = Cancelled

// RefusedError says why an operator's request must not be: the text names what stands in the way, and the remedy. Nothing has
// changed.
type RefusedError struct{ Text string }

func (e *RefusedError) Error() string { return e.Text }

// MaxBy bounds who wants a change, in bytes.
const MaxBy = 512

// CheckBy finds what no store would take as who wants a change; its error is an *InputError.
func CheckBy(by string) error {
	if !storable(by) || len(by) > MaxBy {
		return &InputError{Text: fmt.Sprintf("who wants it must be UTF-8 without NUL, %d bytes at most", MaxBy)}
	}
	return nil
}

// Report tells what became of one task that was to be changed.
type Report struct {
	ID     task.ID `json:"id"`
	Became Became  `json:"became,omitempty"` // "": there is no such task, or it must not be
	Error  string  `json:"error,omitempty"`
	// Missing: there is no such task; else, where Error is set, the request was refused.
	Missing bool `json:"-"`
}

// RetryAll revives tasks one by one, as changeAll does.
func RetryAll(ctx context.Context, s Operator, ids []task.ID, by string) ([]Report, error) {
	return changeAll(ctx, ids, by, s.Retry)
}

// RollbackAll undoes tasks one by one, as changeAll does.
func RollbackAll(ctx context.Context, s Operator, ids []task.ID, by string) ([]Report, error) {
	return changeAll(ctx, ids, by, s.Rollback)
}

// changeAll changes tasks one by one, in their order, and tells what became of each; what cannot be found, or must not
// be, keeps none of the others. At the first other error it stops: the reports are then of those that came before.
func changeAll(
	ctx context.Context, ids []task.ID, by string, change func(context.Context, task.ID, string) (Became, error),
) ([]Report, error) {
	if err := CheckBy(by); err != nil {
		return nil, err
	}
	reports := make([]Report, 0, len(ids))
	for _, id := range ids {
		became, err := change(ctx, id, by)
		r := Report{ID: id, Became: became}
		var refused *RefusedError
		switch {
		case err == nil:
		case errors.Is(err, ErrNoTask):
			r.Error, r.Missing = ErrNoTask.Error(), true
		case errors.As(err, &refused):
			r.Error = refused.Text
		default:
			return reports, fmt.Errorf("task %d: %w", id, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}
