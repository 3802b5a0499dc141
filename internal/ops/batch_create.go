package ops

import (
	"context"
	"errors"
	"iter"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Errors of a CreateBatch whose context ended.
var (
	// ErrNotCreated says that nothing was created.
	ErrNotCreated = errors.New("interrupted: nothing was created")
	// ErrMaybeCreated says that the store may have committed the batch before the end was seen.
	ErrMaybeCreated = errors.New("interrupted at the last moment: it may have been created")
)

// BatchCreated is what came of a batch that was to be created.
type BatchCreated struct {
	Batch  task.BatchID `json:"batch,omitempty"` // 0: with DryRun
	Tasks  int64        `json:"tasks"`
	DryRun bool         `json:"dry_run,omitempty"` // nothing was created
}

// CountRequests reads rows to their end and returns how many there are, or the first mistake.
func CountRequests(rows iter.Seq2[store.EnqueueRequest, error]) (n int64, err error) {
	for _, err := range rows {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// CreateBatch inserts a batch and its rows as Batches does, and returns how many rows there were. A mistake in a row comes back
// as the *InputError that names its place; the end of ctx as ErrNotCreated or ErrMaybeCreated.
func CreateBatch(
	ctx context.Context, s Batches, b store.BatchRequest, rows iter.Seq2[store.EnqueueRequest, error], progress func(n int64),
) (id task.BatchID, n int64, err error) {
	all := false // rows have been read: the store may commit from now on
	counted := func(yield func(store.EnqueueRequest, error) bool) {
		for r, err := range rows {
			if err == nil {
				n++
			}
			if !yield(r, err) {
				return
			}
		}
		all = true
	}
	id, err = s.CreateBatch(ctx, b, counted, progress)
	input, mistaken := errors.AsType[*store.InputError](err)
	switch {
	case err == nil:
		return id, n, nil
	case mistaken:
		return 0, 0, input
	case ctx.Err() == nil:
		return 0, 0, err
	case all:
		return 0, 0, ErrMaybeCreated
	}
	return 0, 0, ErrNotCreated
}
