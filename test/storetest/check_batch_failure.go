package storetest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func batchFailureChecks() []Check {
	return []Check{
		{"on failure, continue", failureContinues},
		{"on failure, cancel", failureCancels},
		{"on failure, rollback", failureRollsBack},
		{"on failure of the last", failureOfLast},
		{"on a failure that is rolled back", failureRolledBack},
		{"on failure, and a crash", failureCrash},
		{"on failure, and an operator before", failureAfterRequest},
		{"on failure, and an operator after", failureThenRequest},
		{"on failure in a new round", failureInRounds},
	}
}

func failureContinues(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(3, store.BatchRequest{})
	row := r.claim(wantOf(kind, task.Run, 1))[0]
	r.settled(ended(row, task.Failed, task.StateFailed))
	r.audited(func() { require.Zero(t, r.fold().Acted) })
	require.False(t, r.step(10).Found)
	got := r.inState(id, store.BatchRunning)
	require.False(t, got.Stopping)
	require.Empty(t, got.RequestedBy)
	r.runAll(task.StateSucceeded)
	r.in(task.StateSucceeded, all[1:]...)
	r.fold()
	r.inState(id, store.BatchPartiallyFailed)
}

func failureCancels(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(4, store.BatchRequest{OnFailure: store.OnFailureCancel, FinishType: "finish"})
	rows := r.claim(wantOf(kind, task.Run, 3))
	r.settled(retry(rows[0], farOff), finish(rows[1]))
	require.Zero(t, r.fold().Acted, "it has not failed for good")
	r.settled(ended(rows[2], task.Failed, task.StateFailed))
	r.audited(func() {
		f := r.fold()
		require.Equal(t, 1, f.Acted)
		require.Equal(t, id, f.Acts[0].ID)
		require.Equal(t, "cancel", f.Acts[0].State)
	}, Audited{Who: "on_failure", Verb: "cancel", Batch: id, Answer: "cancelling"})
	got := r.inState(id, store.BatchRunning)
	require.True(t, got.Stopping)
	require.Equal(t, "on_failure", got.RequestedBy)
	require.Equal(t, "cancel", got.Operation)
	require.Empty(t, r.claim(wantOf(kind, task.Run, 10)))
	r.still(id, func() { r.wants("cancel", id, "cancelling") })
	require.Equal(t, 2, r.steps())
	r.in(task.StateSucceeded, all[1])
	r.in(task.StateCancelled, all[3])
	require.Contains(t, r.get(all[3]).CancelRequestedBy, "batch "+number(id))
	r.rollBackAll()
	r.over()
	r.inState(id, store.BatchPartiallyFailed) // it was not cancelled: it failed
	require.Len(t, r.finished("finish"), 1)
}

func failureRollsBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(5, store.BatchRequest{OnFailure: store.OnFailureRollback, FinishType: "finish"})
	rows := r.claim(wantOf(kind, task.Run, 4))
	r.settled(finish(rows[0]), ended(rows[1], task.Rejected, task.StateFailed), retry(rows[2], 0))
	r.audited(func() {
		f := r.fold()
		require.Equal(t, 1, f.Acted)
		require.Equal(t, "rollback", f.Acts[0].State)
	}, Audited{Who: "on_failure", Verb: "rollback", Batch: id, Answer: "rolling_back"})
	require.Equal(t, "on_failure", r.inState(id, store.BatchRollingBack).RequestedBy)
	require.Equal(t, 3, r.steps())
	r.in(task.StateCancelled, all[4])
	r.in(task.StateRollbackPending, all[2])
	require.NotNil(t, r.get(all[3]).CancelRequested)
	r.settled(finish(rows[3]))
	require.Equal(t, 3, r.steps())
	r.rollBackAll()
	r.over()
	r.in(task.StateRolledBack, all[:4]...)
	r.inState(id, store.BatchRolledBack)
	require.Len(t, r.finished("finish"), 1)
	require.Equal(t, task.Rejected, r.get(all[1]).Cause)
}

func failureOfLast(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	back, all := r.batchOf(2, store.BatchRequest{OnFailure: store.OnFailureRollback, FinishType: "finish"})
	r.runAll(task.StateSucceeded, task.StateFailed)
	f := r.fold()
	require.Zero(t, f.Ended, "there is something to do first")
	require.Equal(t, 1, f.Acted)
	require.Empty(t, r.finished("finish"))
	r.over()
	r.rollBackAll()
	r.over()
	r.in(task.StateRolledBack, all...)
	r.inState(back, store.BatchRolledBack)
	require.Zero(t, r.look(back).Round)
	require.Len(t, r.finished("finish"), 1)

	off, _ := r.batchOf(2, store.BatchRequest{OnFailure: store.OnFailureCancel})
	r.runAll(task.StateFailed)
	r.over()
	r.inState(off, store.BatchFailed)
}

func failureRolledBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(2, store.BatchRequest{OnFailure: store.OnFailureCancel})
	row := r.claim(wantOf(kind, task.Run, 1))[0]
	r.settled(ended(row, task.Failed, task.StateRollbackPending))
	require.Equal(t, 1, r.fold().Acted, "it failed, whatever becomes of it now")
	r.steps()
	r.rollBackAll()
	r.over()
	r.in(task.StateCancelled, all[1])
	r.inState(id, store.BatchFailed)

	id, _ = r.batchOf(2, store.BatchRequest{OnFailure: store.OnFailureCancel})
	row = r.claim(wantOf(kind, task.Run, 1))[0]
	require.Equal(t, store.Cancelling, r.cancel(row.ID, "alice"))
	r.settled(ended(row, task.TimedOut, task.StateRollbackPending))
	require.Zero(t, r.fold().Acted, "it was cancelled")
	r.rollBackAll()
	r.runAll(task.StateSucceeded)
	r.over()
	r.inState(id, store.BatchPartiallyFailed)
}

func failureOnce(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	id, _ := r.batchOf(6, store.BatchRequest{OnFailure: store.OnFailureRollback})
	rows := r.claim(wantOf(kind, task.Run, 6))
	r.settled(ended(rows[0], task.Failed, task.StateFailed), ended(rows[1], task.Failed, task.StateFailed))
	var acts atomic.Int64
	r.audited(func() {
		together(agents, func(ctx context.Context, o *opsRig) error {
			for range 3 {
				f, err := o.h.Fold(ctx, 10)
				if err != nil {
					return err
				}
				acts.Add(int64(f.Acted))
			}
			return nil
		})
		acts.Add(int64(r.fold().Acted))
		r.settled(ended(rows[2], task.Failed, task.StateFailed))
		acts.Add(int64(r.fold().Acted))
	}, Audited{Who: "on_failure", Verb: "rollback", Batch: id, Answer: "rolling_back"})
	require.EqualValues(t, 1, acts.Load())
	for _, row := range rows[3:] {
		r.settled(finish(row))
	}
	for range 3 {
		r.over()
		r.rollBackAll()
	}
	r.inState(id, store.BatchRolledBack)
}

func failureCrash(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, point := range r.h.BatchFailpoints() {
		id, all := r.batchOf(2, store.BatchRequest{OnFailure: store.OnFailureCancel})
		row := r.claim(wantOf(kind, task.Run, 1))[0]
		r.settled(ended(row, task.Failed, task.StateFailed))
		r.audited(func() {
			r.crashing(point, func() error { _, err := r.h.Fold(r.ctx, 10); return err })
			r.fold()
		}, Audited{Who: "on_failure", Verb: "cancel", Batch: id, Answer: "cancelling"})
		r.over()
		r.in(task.StateCancelled, all[1])
		r.inState(id, store.BatchFailed)
	}
}

func failureAfterRequest(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(3, store.BatchRequest{OnFailure: store.OnFailureRollback})
	rows := r.claim(wantOf(kind, task.Run, 2))
	r.settled(finish(rows[0]))
	r.wants("cancel", id, "cancelling")
	r.settled(ended(rows[1], task.Failed, task.StateFailed))
	require.Zero(t, r.fold().Acted, "an operator has said what is to become of it")
	r.over()
	r.in(task.StateSucceeded, all[0])
	require.Equal(t, "alice", r.inState(id, store.BatchCancelled).RequestedBy)
}

func failureThenRequest(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(3, store.BatchRequest{OnFailure: store.OnFailureCancel})
	rows := r.claim(wantOf(kind, task.Run, 2))
	r.settled(finish(rows[0]), ended(rows[1], task.Failed, task.StateFailed))
	require.Equal(t, 1, r.fold().Acted)
	r.wants("rollback", id, "rolling_back")
	require.Equal(t, "alice", r.look(id).RequestedBy)
	r.over()
	r.rollBackAll()
	r.over()
	r.in(task.StateRolledBack, all[:2]...)
	r.inState(id, store.BatchRolledBack)
}

func failureInRounds(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(3, store.BatchRequest{OnFailure: store.OnFailureCancel, FinishType: "finish"})
	row := r.claim(wantOf(kind, task.Run, 1))[0]
	r.settled(ended(row, task.Failed, task.StateFailed))
	r.over()
	r.inState(id, store.BatchFailed)
	for round := 1; round <= 2; round++ {
		r.wants("retry", id, "retrying")
		require.Zero(t, r.fold().Acted, "that failure is of the past")
		r.steps()
		got := r.inState(id, store.BatchRunning)
		require.Equal(t, round, got.Round)
		require.Empty(t, got.RequestedBy)
		require.False(t, got.Stopping)
		row = r.claimOne(kind, task.Run)
		r.settled(ended(row, task.Failed, task.StateFailed))
		require.Equal(t, 1, r.fold().Acted, "and this is new")
		r.over()
		require.Equal(t, "on_failure", r.inState(id, store.BatchFailed).RequestedBy)
		require.Len(t, r.finished("finish"), round+1)
	}
	r.wants("retry", id, "retrying")
	r.steps()
	r.runAll(task.StateSucceeded)
	r.over()
	require.Equal(t, 3, r.inState(id, store.BatchCancelled).Round) // two were cancelled, in the first
}
