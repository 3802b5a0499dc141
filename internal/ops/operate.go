package ops

import (
	"context"
	"fmt"

	"github.com/leasehold/leasehold/internal/task"
)

// Verb is what an operator may ask of tasks, or of a batch.
type Verb string

// The verbs.
const (
	VerbCancel   Verb = "cancel"   // what waits never starts, what runs is stopped
	VerbRetry    Verb = "retry"    // what has failed waits again
	VerbRollback Verb = "rollback" // what was done is rolled back
)

// check finds a verb that does not exist, and what no store would take as who requests it; its error is an *InputError.
func (v Verb) check(by string) error {
	switch v {
	case VerbCancel, VerbRetry, VerbRollback:
		return CheckBy(by)
	}
	return &InputError{Text: fmt.Sprintf("change %q: use cancel, retry or rollback", v)}
}

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
