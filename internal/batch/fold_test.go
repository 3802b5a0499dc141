package batch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// done is a batch of two tasks that both succeeded.
func done(id task.BatchID) store.SummedBatch {
	return store.SummedBatch{
		ID: id, OnFailure: store.OnFailureContinue, Sealed: true, Summed: true, BatchFacts: store.BatchFacts{Total: 2, Succeeded: 2},
	}
}

func TestWhatAFoldConcludes(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(b *store.SummedBatch)
		want store.FoldAct
	}{
		"done":                            {func(*store.SummedBatch) {}, store.FoldEnd},
		"empty":                           {func(b *store.SummedBatch) { b.Total, b.Succeeded = 0, 0 }, store.FoldEnd},
		"open":                            {func(b *store.SummedBatch) { b.Sealed = false }, store.FoldNothing},
		"ended":                           {func(b *store.SummedBatch) { b.Ended = true }, store.FoldNothing},
		"ended, and failed":               {func(b *store.SummedBatch) { b.Ended, b.Failures, b.OnFailure = true, 1, "cancel" }, store.FoldNothing},
		"more to sum":                     {func(b *store.SummedBatch) { b.Summed = false }, store.FoldNothing},
		"a task is live":                  {func(b *store.SummedBatch) { b.Total = 3 }, store.FoldNothing},
		"a task is rolled back":           {func(b *store.SummedBatch) { b.Total, b.RollingBack = 3, 1 }, store.FoldNothing},
		"an operation":                    {func(b *store.SummedBatch) { b.Operation = true }, store.FoldNothing},
		"an operation on a task":          {func(b *store.SummedBatch) { b.TaskOperation = true }, store.FoldNothing},
		"failed, continue":                {func(b *store.SummedBatch) { b.Failed, b.Succeeded, b.Failures = 1, 1, 1 }, store.FoldEnd},
		"failed, cancel":                  {func(b *store.SummedBatch) { b.Failures, b.OnFailure = 1, "cancel" }, store.FoldFollow},
		"failed, rollback":                {func(b *store.SummedBatch) { b.Failures, b.OnFailure = 1, "rollback" }, store.FoldFollow},
		"failed, and more to sum":         {func(b *store.SummedBatch) { b.Failures, b.OnFailure, b.Summed = 1, "cancel", false }, store.FoldFollow},
		"failed during a retry":           {func(b *store.SummedBatch) { b.Failures, b.OnFailure, b.Operation = 1, "cancel", true }, store.FoldFollow},
		"failed in a round before":        {func(b *store.SummedBatch) { b.Failures, b.FailuresSeen, b.OnFailure = 1, 1, "cancel" }, store.FoldEnd},
		"failed after a request":          {func(b *store.SummedBatch) { b.Failures, b.OnFailure, b.Requested = 1, "rollback", "cancel" }, store.FoldEnd},
		"cancelled, and a task came":      {func(b *store.SummedBatch) { b.Requested, b.Total = "cancel", 3 }, store.FoldResume},
		"rolled back, and a task came":    {func(b *store.SummedBatch) { b.Requested, b.Total, b.RollingBack = "rollback", 4, 1 }, store.FoldResume},
		"rolled back, and tasks are":      {func(b *store.SummedBatch) { b.Requested, b.Total, b.RollingBack = "rollback", 4, 2 }, store.FoldNothing},
		"being cancelled":                 {func(b *store.SummedBatch) { b.Requested, b.Total, b.Operation = "cancel", 3, true }, store.FoldNothing},
		"cancelled, a task, more to sum":  {func(b *store.SummedBatch) { b.Requested, b.Total, b.Summed = "cancel", 3, false }, store.FoldResume},
		"cancelled, a task is rolled too": {func(b *store.SummedBatch) { b.Requested, b.Total, b.TaskOperation = "cancel", 3, true }, store.FoldResume},
	} {
		b := done(1)
		c.of(&b)
		require.Equal(t, c.want, Conclude(&b), name)
	}
}

// A fold is one call where nothing follows, and two whatever follows. What another agent has done is not counted.
func TestAFoldIsTwoCallsAtMost(t *testing.T) {
	s := &shelf{batches: []store.SummedBatch{done(1), done(2), done(3)}}
	for i := range s.batches {
		s.batches[i].Total = 3
	}
	f, err := NewEngine(s).Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, store.Folded{Batches: 3}, f)
	require.Empty(t, s.folds)

	failed := done(4)
	failed.Name, failed.Failed, failed.Total, failed.Failures, failed.OnFailure = "move", 1, 5, 1, store.OnFailureRollback
	again := done(5)
	again.Requested, again.Total = store.VerbCancel, 3
	s.batches = append(s.batches, failed, again, done(6), done(7))
	s.applied = []task.BatchID{4, 5, 7}
	f, err = NewEngine(s).Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, s.folds, 1)
	var acts []store.FoldAct
	for _, c := range s.folds[0] {
		acts = append(acts, c.Act)
	}
	require.Equal(t, []store.FoldAct{store.FoldFollow, store.FoldResume, store.FoldEnd, store.FoldEnd}, acts)
	require.Equal(t, store.Folded{
		Batches: 7, Ended: 1, Acted: 1, Resumed: 1, Missed: 1,
		Ends: []store.BatchSummary{{ID: 7, State: "succeeded", Total: 2, Succeeded: 2}},
		Acts: []store.BatchSummary{{ID: 4, Name: "move", State: "rollback", Total: 5, Succeeded: 2, Failed: 1}},
	}, f)

	s.lost = errLost
	f, err = NewEngine(s).Fold(t.Context(), 10)
	require.ErrorIs(t, err, errLost)
	require.Zero(t, f)
	f, err = NewEngine(s).Fold(t.Context(), 0)
	require.NoError(t, err)
	require.Zero(t, f)
}

// What the store refuses for one batch is applied to all the others.
func TestARefusedFoldHoldsUpNoOther(t *testing.T) {
	s := &shelf{batches: []store.SummedBatch{done(1), done(2), done(3)}, applied: []task.BatchID{1, 2, 3}, refused: 2}
	f, err := NewEngine(s).Fold(t.Context(), 10)
	require.ErrorIs(t, err, errRefused)
	require.ErrorContains(t, err, "batch 2: ")
	require.Equal(t, 3, f.Batches)
	require.Equal(t, 2, f.Ended)
	require.Equal(t, []task.BatchID{1, 3}, []task.BatchID{f.Ends[0].ID, f.Ends[1].ID})
	require.Len(t, s.folds, 4)
}
