package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func leftChecks() []Check {
	return []Check{
		{"paused types", leftPauses},
		{"locks and turns", leftTurns},
		{"ends of rows that others wait for", leftEnds},
		{"operations", leftOperations},
	}
}

// leaves asserts what others have left to do, but for paused types.
func (r *rig) leaves(want store.Left) {
	r.t.Helper()
	got, err := r.Left(r.ctx)
	require.NoError(r.t, err)
	got.Paused = nil
	require.Equal(r.t, want, got, "what others have left")
}

func leftPauses(t testing.TB, h Harness) {
	r := newRig(t, h)
	for n, typ := range []string{"", "b", "a", "c"} {
		if n > 0 {
			_, err := r.PauseType(r.ctx, typ, "because", "alice")
			require.NoError(t, err)
		}
		left, err := r.Left(r.ctx)
		require.NoError(t, err)
		list, err := r.Pauses(r.ctx)
		require.NoError(t, err)
		require.Len(t, left.Paused, n)
		for i := range list {
			require.True(t, list[i].At.Equal(left.Paused[i].At))
			list[i].At, left.Paused[i].At = time.Time{}, time.Time{}
		}
		require.Equal(t, list, left.Paused)
		r.leaves(store.Left{})
	}
}

func leftTurns(t testing.TB, h Harness) {
	for name, q := range map[string]store.EnqueueRequest{"a lock": {Type: kind, Lock: "x"}, "a sequence": {Type: kind, Sequence: "x"}} {
		r := newLockRig(t, h)
		for range 2 {
			r.Insert(t, q)
		}
		r.promote() // of a sequence of which no row has run
		for range 2 {
			r.leaves(store.Left{})
			rows := r.take(2)
			require.Len(t, rows, 1, name)
			r.leaves(store.Left{})
			r.settled(finish(rows[0]))
			r.leaves(store.Left{Turns: true})
			r.promote()
		}
		r.leaves(store.Left{})
	}
}

func leftEnds(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.Insert(t, store.EnqueueRequest{Type: kind})[0]
	r.leaves(store.Left{})
	second := r.after(first)
	r.unblocked(0, 0)
	r.leaves(store.Left{Waiting: true})
	r.settled(ended(r.claimOne(kind, task.Run), task.Failed, task.StateFailed))
	r.leaves(store.Left{Ends: true, Waiting: true})
	r.unblocked(0, 1)
	r.leaves(store.Left{})
	_, err := r.Retry(r.ctx, first, "alice")
	require.NoError(t, err)
	left, err := r.Left(r.ctx)
	require.NoError(t, err)
	require.True(t, left.Ends, "a row that was cancelled is to wait again")
	unblockAll(r.ctx, t, r, 1000)
	r.leaves(store.Left{Waiting: true})
	r.waiting([]task.ID{second}, second)
}

func leftOperations(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(2, store.BatchRequest{})
	r.leaves(store.Left{})
	r.gets(r.h.CancelBatch, id, "", "cancelling")
	r.leaves(store.Left{Changes: true})
	r.over()
	r.leaves(store.Left{})
}

func leftBulks(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	failed := r.failed(store.EnqueueRequest{Type: kind}, "boom")
	r.leaves(store.Left{})
	id := r.starts("retry", store.BulkFilter{Type: kind})
	r.leaves(store.Left{Changes: true})
	r.ends(id, 10)
	r.leaves(store.Left{})
	r.in(task.StatePending, failed)
}
