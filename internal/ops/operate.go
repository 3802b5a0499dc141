package ops

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
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

// check rejects a verb that does not exist, and a name of who requests it that no store would take, as *InputError.
func (v Verb) check(by string) error {
	switch v {
	case VerbCancel, VerbRetry, VerbRollback:
	default:
		return &store.InputError{Text: fmt.Sprintf("change %q: use cancel, retry or rollback", v)}
	}
	return checkBy(by)
}

// checkBy finds a name of a requester that no store would take.
func checkBy(by string) error {
	if !store.Storable(by) || len(by) > store.MaxBy {
		return &store.InputError{Text: fmt.Sprintf("the requester must be UTF-8 without NUL, %d bytes at most", store.MaxBy)}
	}
	return nil
}

// Operator is a store in which an operator can change one task. Each call returns what became of the task, changes nothing
// where there is nothing to do, and may be repeated. by names who requests it, for display ("": not given). A call fails with
// ErrNoTask if there is no such task, and with *RefusedError if the change is not allowed.
type Operator interface {
	// Cancel cancels a task. A task that waits never starts; one that runs is asked to stop ("cancelling").
	Cancel(ctx context.Context, id task.ID, by string) (store.Became, error)
	// Retry revives a task that has failed, was cancelled or rolled back: it waits again, with a fresh budget.
	Retry(ctx context.Context, id task.ID, by string) (store.Became, error)
	// RetryWith is Retry with another payload, which the task keeps; nil: its own. With one, a task that Retry would leave as it is, and a chunk,
	// is a *RefusedError. A payload that is no JSON, or larger than the store admits, is an *store.InputError. What it was is not kept.
	RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error)
	// Rollback rolls a task back, if its type has a rollback. A task that runs is stopped first ("cancelling").
	Rollback(ctx context.Context, id task.ID, by string) (store.Became, error)
}

// Rollbacks knows what can be rolled back.
type Rollbacks interface {
	// CanRollBack reports whether a task of a type can be rolled back: a policy of the type has a rollback, or the one that the task's last
	// attempt began with. 0: any task of the type.
	CanRollBack(ctx context.Context, typ string, id task.ID) (bool, error)
	// BatchCanRollBack reports whether a task of a batch can be rolled back. It looks at store.RollbackLooked live tasks and as many finished
	// ones; where there may be more, it is true if a task of any type can.
	BatchCanRollBack(ctx context.Context, id task.BatchID) (bool, error)
}
