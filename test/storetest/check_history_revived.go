package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// firstEnds are ways in which a first attempt ends its task, by what the history says of them. Only the one that leaves no
// attempt at all is silent.
func firstEnds(row task.Task) map[string]store.Settlement {
	failed := ended(row, task.Failed, task.StateFailed)
	failed.Next.Reason = "attempt 1 of 1 failed: it broke"
	failed.Outcome.Result, failed.Outcome.Output = raw(`{"page":4}`), "some output"
	late := ended(row, task.Deferred, task.StateFailed)
	late.Next.Attempt, late.Next.Deferrals = 0, 1
	late.Next.Reason = "its deadline has passed; deferred: it broke"
	unreached := ended(row, task.Undelivered, task.StateFailed)
	unreached.Next.Attempt, unreached.Next.EverStarted, unreached.Started = 0, false, -1
	cancelled := ended(row, task.Drained, task.StateCancelled)
	cancelled.Next.Attempt, cancelled.Next.Reason = 0, "cancellation requested; drained: it broke"
	silent := release(row)
	silent.Next.State = task.StateCancelled
	noted := finish(row)
	noted.Outcome.Note = "the result was too large to keep"
	bare := finish(row)
	bare.Outcome.Result = nil
	return map[string]store.Settlement{
		"failed": failed, "past its deadline": late, "never reached": unreached, "cancelled": cancelled, "silent": silent,
		"succeeded": finish(row), "succeeded, with a note": noted, "succeeded, without a result": bare,
	}
}

// historyRevived: reviving a task changes nothing of its history, and adds to it a success at the first try as it was
// settled.
func historyRevived(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for name := range firstEnds(task.Task{}) {
		// What an attempt that did not count has left is not what the next one resulted in.
		id := r.Insert(r.t, store.EnqueueRequest{Type: kind})[0]
		before := ended(r.claimOne(kind, task.Run), task.Deferred, task.StatePending)
		before.Next.Attempt, before.Next.Deferrals, before.Outcome.Result = 0, 1, raw(`{"retry":"later"}`)
		r.settled(before)
		row := r.claimOne(kind, task.Run)
		require.Equal(t, 1, row.Attempt)
		end := firstEnds(row)[name]
		r.settled(end)
		r.revived(id, name, end)
	}
}

// historyRevivedReaped is historyRevived of an attempt that was reaped: the fence of its settlement is not the one it ran
// with, and a repeated request with the one that it ran with is answered that it has ended.
func historyRevivedReaped(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for name := range firstEnds(task.Task{}) {
		id := r.Insert(r.t, store.EnqueueRequest{Type: kind})[0]
		row := r.claimOne(kind, task.Run)
		reaped, a, err := r.Adopt(r.ctx, r.session, row.ID, row.Fence, reapFor)
		require.NoError(t, err)
		require.Equal(t, store.Applied, a)
		end := firstEnds(reaped.Task)[name]
		end.RanFence = reaped.RanFence
		r.settled(end)
		ask := func() store.Answer {
			_, a, err := r.Adopt(r.ctx, r.session, id, row.Fence, reapFor)
			require.NoError(t, err)
			return a
		}
		want := store.Lost
		if end.Outcome.Verdict == task.Failed {
			want = store.Ended
		}
		require.Equal(t, want, ask(), name)
		r.revived(id, name, end)
		require.Equal(t, want, ask(), "%s: after it was revived", name)
	}
}

// revived has a finished task run again or rolled back, asserts what its history says of the attempt that ended as it did,
// and ends it for good.
func (r *opsRig) revived(id task.ID, name string, end store.Settlement) {
	r.t.Helper()
	before := r.get(id)
	do, phase, last := r.h.Retry, task.Run, task.StateSucceeded
	if before.State == task.StateSucceeded {
		do, phase, last = r.h.Rollback, task.Rollback, task.StateRolledBack
		sameOr(r.t, end.Outcome.Result, before.Result, name)
	}
	_, err := do(r.ctx, id, "alice")
	require.NoError(r.t, err)
	after := r.get(id).History
	if end.InHistory() || end.Silent {
		require.Equal(r.t, before.History, after, name)
	} else {
		require.Len(r.t, after, len(before.History)+1, name)
	}
	if !end.Silent {
		a := after[len(after)-1]
		require.Equal(r.t, end.RanFence, a.Fence, name)
		require.Equal(r.t, r.session, a.Session, name)
		require.Equal(r.t, task.Run, a.Phase, name)
		require.Equal(r.t, 1, a.Attempt, name)
		require.Equal(r.t, end.Outcome.Verdict, a.Outcome, name)
		require.Equal(r.t, end.Outcome.Error, a.Error, name)
		require.Equal(r.t, end.Outcome.Output, a.Output, name)
		require.Equal(r.t, end.Next.State, a.State, name)
		sameOr(r.t, end.Outcome.Result, a.Result, name)
		require.Equal(r.t, end.Started < 0 && !end.Reaped(), a.StartedAt == nil, name)
		require.WithinDuration(r.t, *before.FinishedAt, a.EndedAt, time.Millisecond, name)
	}
	r.settled(ended(r.claimOne(kind, phase), task.Succeeded, last))
}
