package batch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Fold sums the counters of at most limit batches, acts on failures, and completes the batches that are done. Where there is
// nothing to do but to sum, that is one call to the store. With an error it returns what it did nevertheless.
func (e *Engine) Fold(ctx context.Context, limit int) (f store.Folded, err error) {
	if limit <= 0 {
		return f, ctx.Err()
	}
	summed, err := e.store.SumBatches(ctx, limit)
	if err != nil {
		return f, err
	}
	f.Batches = len(summed)
	var todo []store.Conclusion
	for i := range summed {
		if act := Conclude(&summed[i]); act != store.FoldNothing {
			todo = append(todo, store.Conclusion{Batch: &summed[i], Act: act})
		}
	}
	if len(todo) == 0 {
		return f, nil
	}
	applied, err := e.apply(ctx, todo)
	for _, c := range todo {
		if slices.Contains(applied, c.Batch.ID) {
			note(&f, c)
		}
	}
	f.Missed = len(todo) - len(applied)
	return f, err
}

// apply applies conclusions, and returns the batches to which one was applied. Where the store cannot apply them all at once, it
// applies them one by one: a batch whose finish task is refused keeps no other from its end. The error is that of the first.
func (e *Engine) apply(ctx context.Context, todo []store.Conclusion) (applied []task.BatchID, first error) {
	applied, err := e.store.ApplyFold(ctx, todo)
	switch {
	case err == nil:
		return applied, nil
	case len(todo) == 1:
		return nil, fmt.Errorf("batch %d: %w", todo[0].Batch.ID, err)
	}
	applied = nil
	for i := range todo {
		one, err := e.apply(ctx, todo[i:i+1])
		applied, first = append(applied, one...), cmp.Or(first, err)
	}
	return applied, first
}

// Conclude decides what a fold does to a batch. Stores select the batches that need a fold by the same rule; a test compares them.
func Conclude(b *store.SummedBatch) store.FoldAct {
	switch live := b.Live(); {
	case b.Ended:
		return store.FoldNothing
	case b.Requested == "" && b.OnFailure != store.OnFailureContinue && b.Failures > b.FailuresSeen:
		return store.FoldFollow
	case b.Requested != "" && live > b.RollingBack && !b.Operation:
		return store.FoldResume
	case b.Sealed && b.Summed && live == 0 && !b.Operation && !b.TaskOperation:
		return store.FoldEnd
	}
	return store.FoldNothing
}

// note adds an act that was applied.
func note(f *store.Folded, c store.Conclusion) {
	b := c.Batch
	sum := store.BatchSummary{
		ID: b.ID, Name: b.Name, Round: b.Round, Total: b.Total, Succeeded: b.Succeeded, Failed: b.Failed, Cancelled: b.Cancelled,
		RolledBack: b.RolledBack, RollbackFailed: b.RollbackFailed,
	}
	switch c.Act {
	case store.FoldFollow:
		sum.State = string(b.OnFailure)
		f.Acted, f.Acts = f.Acted+1, append(f.Acts, sum)
	case store.FoldResume:
		f.Resumed++
	case store.FoldEnd:
		ended := b.BatchFacts
		ended.Ended = true
		sum.State = string(State(&ended))
		f.Ended, f.Ends = f.Ended+1, append(f.Ends, sum)
	}
}
