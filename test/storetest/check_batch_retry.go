package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func batchRetryChecks() []Check {
	return []Check{
		{"retry revives what failed", batchRetries},
		{"retry of one that has not ended", batchRetriesRunning},
		{"what retry answers", batchRetryAnswers},
		{"retry in bounded steps", batchRetrySteps},
		{"retry leaves rows whose key is another's", batchRetryKeys},
		{"retry tries each row once", batchRetryOnce},
		{"retry while it is being cancelled or rolled back", batchRetryRefused},
		{"retry of one row opens its batch again", batchRetryRow},
		{"retry of one row while its batch is being cancelled", batchRetryRowRefused},
		{"rollback of one row opens its batch again", batchRollbackRow},
	}
}

// everyEnd creates a batch with a row in each finished state, and one that was rolled back for each cause that matters.
func (r *opsRig) everyEnd(q store.BatchRequest) (id task.BatchID, rows map[string]task.ID) {
	r.t.Helper()
	q.Open = true
	id, _ = r.batch(q)
	row := store.EnqueueRequest{Type: kind, Batch: id}
	rows = map[string]task.ID{}
	for _, s := range plainStates() {
		if s.Finished() {
			rows[string(s)] = r.rowIn(row, s, true)
		}
	}
	rows["never started"] = r.rowIn(row, task.StateCancelled, false)
	rows["one way"] = r.rowIn(store.EnqueueRequest{Type: oneWayKind, Batch: id}, task.StateSucceeded, true)
	back := r.rowIn(row, task.StateSucceeded, true)
	r.did(became(task.StateRollbackPending), r.h.Rollback, back, "")
	rows["rolled back after a success"] = back
	r.rollBackAll()
	back = r.rowIn(row, task.StateRetryPending, true)
	require.Equal(r.t, store.Became("rollback_pending"), r.cancel(back, ""))
	rows["rolled back after a cancellation"] = back
	r.rollBackAll()
	_, err := r.h.SealBatch(r.ctx, id)
	require.NoError(r.t, err)
	require.Equal(r.t, 1, r.fold().Ended)
	r.inState(id, store.BatchRollbackFailed)
	return id, rows
}

func batchRetries(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, again := range r.bulks("retry") {
		id, rows := r.everyEnd(store.BatchRequest{})
		before := map[string]*store.TaskInfo{}
		for name, row := range rows {
			before[name] = r.get(row)
		}
		r.audited(func() { r.gets(again, id, "alice", "retrying") },
			Audited{Who: "alice", Verb: "retry", Batch: id, Answer: "retrying"})
		got := r.inState(id, store.BatchRunning)
		require.Equal(t, 1, got.Round, way)
		require.Equal(t, "retry", got.Operation, way)
		require.False(t, got.Stopping, way)
		require.Empty(t, got.RequestedBy, way)
		require.Nil(t, got.EndedAt, way)
		require.Zero(t, r.fold().Ended, "its operation is not over")
		r.audited(func() { require.Equal(t, 2, r.steps(), way) })
		for name, row := range rows {
			now := r.get(row)
			if name != "failed" && name != "rolled_back" {
				require.Equal(t, before[name], now, name)
				continue
			}
			require.Equal(t, task.StatePending, now.State, name)
			require.Equal(t, before[name].Fence+1, now.Fence, name)
			require.Equal(t, 1, now.Round, name)
			require.Equal(t, name == "failed", now.EverStarted, name)
			require.NotEmpty(t, now.History, name)
		}
		require.Empty(t, r.look(id).Operation, way)
		require.Zero(t, r.look(id).Refused, way)
		require.Len(t, r.runAll(task.StateSucceeded), 2)
		require.Equal(t, 1, r.fold().Ended)
		r.inState(id, store.BatchRollbackFailed)
	}
}

func batchRetriesRunning(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(3, store.BatchRequest{})
	rows := r.claim(wantOf(kind, task.Run, 3))
	r.settled(ended(rows[0], task.Failed, task.StateFailed), finish(rows[1]))
	r.wants("retry", id, "retrying")
	require.Equal(t, 1, r.steps())
	r.in(task.StatePending, ids[0])
	r.in(task.StateRunning, ids[2])
	require.Zero(t, r.inState(id, store.BatchRunning).Round, "it had not ended")
	r.settled(finish(rows[2]))
	r.runAll(task.StateSucceeded)
	require.Equal(t, 1, r.fold().Ended)
	r.inState(id, store.BatchSucceeded)
}

func batchRetryAnswers(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, again := range r.bulks("retry") {
		id, _ := r.batchOf(2, store.BatchRequest{})
		r.still(id, func() { r.gets(again, id, "bob", "pending") })
		row := r.claim(wantOf(kind, task.Run, 1))[0]
		r.still(id, func() { r.gets(again, id, "bob", "running") })
		r.settled(finish(row))
		r.runAll(task.StateFailed)
		r.fold()
		r.gets(again, id, "alice", "retrying")
		r.still(id, func() { r.gets(again, id, "bob", "retrying") })
		r.steps()
		r.still(id, func() { r.gets(again, id, "bob", "running") })
		r.runAll(task.StateSucceeded)
		r.fold()
		r.still(id, func() { r.gets(again, id, "bob", "succeeded") })
		require.Equal(t, 1, r.look(id).Round)
	}
}

func batchRetrySteps(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(10, store.BatchRequest{})
	r.runAll(task.StateFailed)
	r.fold()
	r.wants("retry", id, "retrying")
	changed, over := 0, false
	for range 5 {
		got := r.step(3)
		changed += got.Rows
		r.reckoned(r.look(id))
		require.Zero(t, r.fold().Ended)
		if over = got.Ended; over {
			require.Equal(t, "retry", got.Verb)
			require.EqualValues(t, 10, got.Done)
			break
		}
	}
	require.True(t, over)
	require.Equal(t, 10, changed)
	r.in(task.StatePending, ids...)
}

func batchRetryKeys(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, Key: "a"}, store.EnqueueRequest{Type: kind, Key: "b"}, store.EnqueueRequest{Type: kind})
	r.runAll(task.StateFailed)
	r.fold()
	live := r.enqueue(store.EnqueueRequest{Type: kind, Key: "a", In: farOff}, true)
	r.wants("retry", id, "retrying")
	require.Equal(t, 2, r.steps())
	r.in(task.StateFailed, ids[0])
	r.in(task.StatePending, ids[1:]...)
	r.in(task.StatePending, live)
	require.EqualValues(t, 1, r.look(id).Refused)
	r.runAll(task.StateSucceeded)
	r.fold()
	require.EqualValues(t, 1, r.inState(id, store.BatchPartiallyFailed).Refused)
	require.Equal(t, store.Became("cancelled"), r.cancel(live, ""))
	r.wants("retry", id, "retrying")
	require.Equal(t, 1, r.steps())
	require.Zero(t, r.look(id).Refused)
	require.Equal(t, 2, r.look(id).Round)
}

func batchRetryOnce(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(6, store.BatchRequest{})
	r.runAll(task.StateFailed)
	r.fold()
	r.wants("retry", id, "retrying")
	for range 10 {
		r.step(1)
		r.runAll(task.StateFailed) // they fail again at once
	}
	r.in(task.StateFailed, ids...)
	for _, row := range ids {
		require.Equal(t, 1, r.get(row).Round)
	}
	require.Equal(t, 1, r.fold().Ended)
	r.inState(id, store.BatchFailed)
}

func batchRetryRefused(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, again := range r.bulks("retry") {
		for _, verb := range []string{"cancel", "rollback"} {
			id, _ := r.batchOf(3, store.BatchRequest{})
			rows := r.claim(wantOf(kind, task.Run, 2))
			r.settled(ended(rows[0], task.Failed, task.StateFailed))
			_, err := r.bulks(verb)["Go"](r.ctx, id, "alice")
			require.NoError(t, err)
			refused := func() {
				t.Helper()
				r.still(id, func() {
					_, err := again(r.ctx, id, "bob")
					refusal(t, way, err, "batch "+number(id))
				})
			}
			refused()
			r.steps()
			refused()
			r.settled(finish(rows[1]))
			r.steps()
			refused() // what it is about has been done, but it has not ended
			r.rollBackAll()
			r.over()
			require.True(t, r.look(id).State.Ended())
			answer, err := again(r.ctx, id, "bob")
			require.NoError(t, err, "it has ended")
			require.NotEmpty(t, answer)
			r.over()
			r.runAll(task.StateSucceeded)
			r.over()
		}
	}
}

func batchRetryRow(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, again := range r.retries() {
		id, ids := r.batchOf(2, store.BatchRequest{FinishType: "finish"})
		r.runAll(task.StateFailed, task.StateSucceeded)
		notified := len(r.finished("finish"))
		r.fold()
		ended := r.inState(id, store.BatchPartiallyFailed)
		require.Zero(t, ended.Round)
		r.did(became(task.StatePending), again, ids[0], "alice")
		got := r.inState(id, store.BatchRunning)
		require.Equal(t, 1, got.Round)
		require.Nil(t, got.EndedAt)
		require.Empty(t, got.Operation)
		r.noRow(id, "is sealed")
		require.Zero(t, r.fold().Ended)
		r.runAll(task.StateSucceeded)
		require.Equal(t, 1, r.fold().Ended)
		require.Equal(t, 1, r.inState(id, store.BatchSucceeded).Round)
		require.Len(t, r.finished("finish"), notified+2)
	}
}

func batchRetryRowRefused(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, again := range r.retries() {
		for _, verb := range []string{"cancel", "rollback"} {
			id, ids := r.batchOf(3, store.BatchRequest{})
			rows := r.claim(wantOf(kind, task.Run, 2))
			r.settled(ended(rows[0], task.Failed, task.StateFailed))
			_, err := r.bulks(verb)["Go"](r.ctx, id, "alice")
			require.NoError(t, err)
			r.still(id, func() {
				_, err := again(r.ctx, ids[0], "bob")
				refusal(t, way, err, "batch "+number(id))
			})
			r.did(became(task.StateRunning), again, ids[1], "bob")
			r.settled(finish(rows[1]))
			r.over()
			r.rollBackAll()
			r.over()
			if verb == "cancel" {
				r.did(became(task.StatePending), again, ids[0], "bob")
				require.False(t, r.look(id).Stopping, "a new round")
				require.Empty(t, r.look(id).RequestedBy)
				require.Len(t, r.runAll(task.StateSucceeded), 1, "and it starts")
				r.over()
				r.inState(id, store.BatchCancelled) // one of it was cancelled
			}
		}
	}
}

func batchRollbackRow(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, rollBack := range r.rollbacks() {
		id, ids := r.batchOf(2, store.BatchRequest{FinishType: "finish"})
		notified := len(r.finished("finish"))
		r.runAll(task.StateSucceeded)
		r.fold()
		r.inState(id, store.BatchSucceeded)
		r.did(became(task.StateRollbackPending), rollBack, ids[1], "alice")
		got := r.inState(id, store.BatchRollingBack)
		require.Equal(t, 1, got.Round)
		require.False(t, got.Stopping)
		r.rollBackAll()
		require.Equal(t, 1, r.fold().Ended)
		r.inState(id, store.BatchPartiallyFailed)
		require.Len(t, r.finished("finish"), notified+2)
		// One that ran when it was asked for.
		id, ids = r.batchOf(1, store.BatchRequest{})
		row := r.claimOne(kind, task.Run)
		r.did(store.Cancelling, rollBack, row.ID, "alice")
		r.settled(finish(row))
		r.over()
		r.rollBackAll()
		r.over()
		r.in(task.StateRolledBack, ids...)
		r.inState(id, store.BatchRolledBack)
	}
}
