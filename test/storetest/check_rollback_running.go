package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func rollbackRunningChecks() []Check {
	return []Check{
		{"of one that runs, and then succeeds", rollbackThenSucceeds},
		{"of one that runs, and then ends", rollbackThenEnds},
		{"of one that runs, and was to be cancelled", rollbackRequested},
		{"of one that runs, and is lost", rollbackThenLost},
		{"of one that runs, and leaves its key", rollbackThenKey},
		{"of one that runs, past its retention", rollbackThenExpired},
		{"those that run keep no other waiting", rollbackFair},
		{"no retry before it", rollbackNoRetry},
	}
}

// step carries on one operation.
func (r *opsRig) step(rows int) store.Stepped {
	r.t.Helper()
	got, err := r.h.Step(r.ctx, rows)
	require.NoError(r.t, err)
	require.LessOrEqual(r.t, got.Rows, rows)
	if got.Ended || got.Rows > 0 {
		require.True(r.t, got.Found)
	}
	return got
}

// steps carries on all operations until they can only wait, and returns how many tasks that changed.
func (r *opsRig) steps() (rows int) {
	r.t.Helper()
	for range 10_000 {
		got := r.step(3)
		rows += got.Rows
		if got.Rows == 0 && !got.Ended {
			return rows
		}
	}
	require.Fail(r.t, "it never ends")
	return rows
}

func rollbackThenSucceeds(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		row := r.heldUnder(beating())
		r.did(store.Cancelling, rollBack, row.ID, "alice")
		notified := r.held0()
		require.True(t, notified.CancelRequested, way)
		require.Equal(t, "alice", notified.CancelReason, way)
		r.unchanged(row.ID, func() {
			got := r.step(10)
			require.True(t, got.Found, way)
			require.Zero(t, got.Rows, way)
			require.False(t, got.Ended, "it still runs")
		})
		end := finish(row)
		r.settled(end)
		require.Equal(t, task.StateSucceeded, r.state(row.ID), way)
		before := r.get(row.ID)
		got := r.step(10)
		require.Equal(t, 1, got.Rows, way)
		require.True(t, got.Ended, way)
		require.Equal(t, "rollback", got.Verb, way)
		require.Equal(t, row.ID, got.Task, way)
		require.Zero(t, got.Batch, way)
		require.EqualValues(t, 1, got.Done, way)
		info := r.assertRolledBack(row.ID, before, task.Succeeded, way)
		near(t, r.now(), info.RunAt)
		require.Len(t, info.History, 1, way)
		require.Equal(t, same(store.Ended, 1), r.settle(end), "a repeat")
		require.False(t, r.step(10).Found, way)
		r.rollBackAll()
	}
}

func rollbackThenEnds(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for s, then := range map[task.State]task.State{
		task.StateFailed:          task.StateRollbackPending,
		task.StateCancelled:       task.StateRollbackPending,
		task.StateRollbackPending: task.StateRollbackPending,
		task.StateRetryPending:    task.StateRollbackPending,
	} {
		row := r.heldUnder(moving()) // which says nothing of a rollback: the type does
		r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
		end := ended(row, task.Failed, s)
		end.CancelKnown = true
		r.settled(end)
		fence := r.get(row.ID).Fence
		require.True(t, r.step(10).Ended, s)
		got := r.get(row.ID)
		require.Equal(t, then, got.State, s)
		if s == then {
			require.Equal(t, fence, got.Fence, "the settlement has made it so")
		} else {
			require.Equal(t, fence+1, got.Fence, s)
		}
		require.Contains(t, []task.Verdict{task.Failed, task.Cancelled}, got.Cause, s)
		require.False(t, r.step(10).Found, s)
		r.rollBackAll()
	}
	// Nothing of it was started.
	row := r.heldUnder(beating())
	r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
	end := ended(row, task.Undelivered, task.StateCancelled)
	end.Next.EverStarted = false
	r.settled(end)
	r.unchanged(row.ID, func() { require.True(t, r.step(10).Ended) })
	require.False(t, r.step(10).Found)
	// It was rolled back before the step looked at it.
	row = r.heldUnder(beating())
	r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
	r.settled(ended(row, task.Cancelled, task.StateRollbackPending))
	r.settled(ended(r.claimOne(kind, task.Rollback), task.Rejected, task.StateRollbackFailed))
	r.unchanged(row.ID, func() { require.True(t, r.step(10).Ended) })
	require.False(t, r.step(10).Found)
}

func rollbackRequested(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	row := r.heldUnder(beating())
	require.Equal(t, store.Cancelling, r.cancel(row.ID, "alice"))
	r.audited(func() {
		r.unchanged(row.ID, func() { r.did(store.Cancelling, r.h.Rollback, row.ID, "bob") })
	}, Audited{Who: "bob", Verb: "rollback", Task: row.ID, Answer: "cancelling"})
	require.Equal(t, "alice", r.get(row.ID).CancelRequestedBy, "who asked first stands")
	r.idle(row.ID, func() { require.Equal(t, store.Cancelling, r.cancel(row.ID, "carol")) })
	r.settled(finish(row))
	require.Equal(t, 1, r.steps(), "a cancellation would have left it")
	require.Equal(t, task.StateRollbackPending, r.state(row.ID))
}

func rollbackThenLost(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	row := r.heldUnder(beating())
	r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	require.True(t, reaped[0].CancelRequested)
	require.False(t, o.step(10).Ended, "it is reaped, and not over")
	end := ended(reaped[0].Task, task.Lost, task.StateRollbackPending)
	end.RanFence, end.CancelKnown = reaped[0].RanFence, true
	o.settled(end)
	require.Equal(t, task.Cancelled, o.get(row.ID).Cause)
	require.True(t, o.step(10).Ended)
	require.False(t, o.step(10).Found)
}

func rollbackThenKey(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	q := store.EnqueueRequest{Type: kind, Key: "invoice-7"}
	r.Insert(t, q)
	row := r.claimOne(kind, task.Run)
	r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
	r.settled(finish(row))
	q.In = farOff
	r.Insert(t, q)
	r.unchanged(row.ID, func() {
		got := r.step(10)
		require.True(t, got.Ended, "it cannot be")
		require.Zero(t, got.Rows)
		require.EqualValues(t, 1, got.Refused)
	})
	require.False(t, r.step(10).Found)
}

func rollbackThenExpired(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	row := r.heldUnder(beating())
	r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
	r.settled(finish(row))
	r.Advance(t, 10*day)
	r.maintain(day)
	r.gone(row.ID)
	require.Zero(t, r.steps())
	require.False(t, r.step(10).Found)
}

func rollbackFair(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.insert(4)
	rows := r.claim(under(beating(), 4))
	for _, row := range rows {
		r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
	}
	r.settled(finish(rows[3]), finish(rows[1]))
	require.Equal(t, 2, r.steps(), "those that asked first wait for what runs")
	require.Equal(t, task.StateRollbackPending, r.state(rows[1].ID))
	require.Equal(t, task.StateRollbackPending, r.state(rows[3].ID))
	r.settled(finish(rows[0]), finish(rows[2]))
	require.Equal(t, 2, r.steps())
	require.False(t, r.step(1).Found)
}

func rollbackNoRetry(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, again := range r.retries() {
		row := r.heldUnder(moving())
		r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
		r.settled(ended(row, task.Failed, task.StateFailed))
		r.idle(row.ID, func() {
			_, err := again(r.ctx, row.ID, "bob")
			refusal(t, way, err, "task "+number(row.ID)+" is to be rolled back")
		})
		require.Equal(t, 1, r.steps(), way)
		r.rollBackAll()
		r.did(became(task.StatePending), again, row.ID, "bob")
		require.Equal(t, store.Became("cancelled"), r.cancel(row.ID, ""))
	}
}
