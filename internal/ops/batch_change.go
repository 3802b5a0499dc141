package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// BatchChange is a request to change a batch as a whole.
type BatchChange struct {
	Verb  Verb
	By    string // who requests it, shown to people; "": not given
	Force bool   // VerbRollback: also where rows are past their retention
}

// BatchChanged is what became of a batch that was to be changed.
type BatchChanged struct {
	Batch  task.BatchID `json:"batch"`
	Became string       `json:"became,omitempty"`
	Tasks  *int64       `json:"tasks,omitempty"`   // with DryRun: how many it would change, at most
	DryRun bool         `json:"dry_run,omitempty"` // nothing was changed
}

// Check finds what no store would take, before any is asked; its error is an *InputError.
func (c BatchChange) Check() error { return c.Verb.check(c.By) }

// Affects returns how many tasks the change concerns, at most: some of them may be finished, or refuse, before their turn.
func (c BatchChange) Affects(b *store.BatchInfo) int64 {
	switch c.Verb {
	case VerbCancel:
		return b.Waiting + b.Running
	case VerbRetry:
		return b.Failed + b.RolledBack
	case VerbRollback:
		return b.Waiting + b.Running + b.Succeeded + b.Failed + b.Cancelled
	}
	return 0
}

// CountChange returns the batch as it is now, and how many tasks the change concerns at most (Affects). It changes nothing, and
// names a batch that does not exist.
func CountChange(ctx context.Context, s Batches, id task.BatchID, c BatchChange) (b *store.BatchInfo, tasks int64, err error) {
	if b, err = s.GetBatch(ctx, id); err != nil {
		return nil, 0, batchError(id, err)
	}
	return b, c.Affects(b), nil
}

// ChangeBatch requests the change and returns what became of the batch, as Batches does. It names a batch that does not exist.
func ChangeBatch(ctx context.Context, s Batches, id task.BatchID, c BatchChange) (became string, err error) {
	if err := c.Check(); err != nil {
		return "", err
	}
	switch c.Verb {
	case VerbCancel:
		became, err = s.CancelBatch(ctx, id, c.By)
	case VerbRetry:
		became, err = s.RetryBatch(ctx, id, c.By)
	case VerbRollback:
		became, err = s.RollbackBatch(ctx, id, c.By, c.Force)
	}
	return became, batchError(id, err)
}

// SealBatch lets no further tasks into an open batch, and returns what became of it. It names a batch that does not exist.
func SealBatch(ctx context.Context, s Batches, id task.BatchID) (became string, err error) {
	became, err = s.SealBatch(ctx, id)
	return became, batchError(id, err)
}
