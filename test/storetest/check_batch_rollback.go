package storetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func batchRollbackChecks() []Check {
	return []Check{
		{"rollback rolls back what was done", batchRollsBack},
		{"rollback of one that runs", batchRollsBackRunning},
		{"what was started last is rolled back first", batchNewestFirst},
		{"what rollback answers", batchRollbackAnswers},
		{"rollback in bounded steps", batchRollbackSteps},
		{"rollback leaves rows whose key is another's", batchRollbackKeys},
		{"rollback in the place of a cancel", batchRollbackSupersedes},
		{"rollback or cancel in the place of a retry", batchStopsRetry},
		{"rollback past retention", batchPastRetention},
		{"a rollback fails", batchRollbackFails},
		{"rollback of one that nothing was done of", batchRollsBackNothing},
	}
}

func batchRollsBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.bulks("rollback") {
		id, rows := r.everyEnd(store.BatchRequest{})
		before := map[string]*store.TaskInfo{}
		for name, row := range rows {
			before[name] = r.get(row)
		}
		r.audited(func() { r.gets(rollBack, id, "alice", "rolling_back") },
			Audited{Who: "alice", Verb: "rollback", Batch: id, Answer: "rolling_back"})
		got := r.inState(id, store.BatchRollingBack)
		require.Equal(t, 1, got.Round, way)
		require.Equal(t, "rollback", got.Operation, way)
		require.Equal(t, "alice", got.RequestedBy, way)
		require.True(t, got.Stopping, way)
		require.Zero(t, r.fold().Ended, "its operation is not over")
		r.audited(func() { require.Equal(t, 3, r.steps(), way) })
		causes := map[string]task.Verdict{"succeeded": task.Succeeded, "failed": task.Failed, "cancelled": task.Cancelled}
		for name, row := range rows {
			if causes[name] == "" {
				require.Equal(t, before[name], r.get(row), name)
				continue
			}
			r.assertRolledBack(row, before[name], causes[name], name)
		}
		require.Zero(t, r.fold().Ended, way)
		r.inState(id, store.BatchRollingBack)
		r.rollBackAll()
		require.Equal(t, 1, r.fold().Ended)
		r.inState(id, store.BatchRollbackFailed)
		r.still(id, func() { r.gets(rollBack, id, "bob", "rollback_failed") })
	}
}

func batchRollsBackRunning(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(6, store.BatchRequest{FinishType: "finish"})
	rows := r.claim(wantOf(kind, task.Run, 5))
	r.settled(finish(rows[0]), ended(rows[1], task.Failed, task.StateFailed), retry(rows[2], 0))
	r.wants("rollback", id, "rolling_back")
	require.Equal(t, 4, r.steps(), "one is cancelled, one rolled back and two are to stop")
	r.in(task.StateSucceeded, all[0])
	r.in(task.StateFailed, all[1])
	r.in(task.StateRollbackPending, all[2])
	r.in(task.StateRunning, all[3], all[4])
	r.in(task.StateCancelled, all[5])
	r.inState(id, store.BatchRollingBack)
	r.settled(ended(rows[3], task.Cancelled, task.StateRollbackPending))
	require.Zero(t, r.steps(), "one still runs")
	r.in(task.StateSucceeded, all[0])
	r.settled(finish(rows[4]))
	require.Equal(t, 3, r.steps())
	r.in(task.StateRollbackPending, all[:5]...)
	require.Empty(t, r.claim(wantOf(kind, task.Run, 10)))
	r.rollBackAll()
	r.over()
	r.in(task.StateRolledBack, all[:5]...)
	r.in(task.StateCancelled, all[5])
	got := r.inState(id, store.BatchRolledBack)
	require.Zero(t, got.Round, "it had not ended")
	require.Len(t, r.finished("finish"), 1)
	for i, cause := range []task.Verdict{task.Succeeded, task.Failed, task.Cancelled, task.Cancelled, task.Succeeded} {
		require.Equal(t, cause, r.get(all[i]).Cause)
	}
}

func batchNewestFirst(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(8, store.BatchRequest{})
	started := slices.Clone(all)
	// They start in an order that is not that of their ids.
	for _, i := range []int{1, 4, 6} {
		started[i], started[i-1] = started[i-1], started[i]
	}
	rows := map[task.ID]task.Task{}
	for _, row := range r.claim(wantOf(kind, task.Run, 8)) {
		rows[row.ID] = row
	}
	r.Advance(t, 90*time.Minute)
	for i, at := range started {
		e := finish(rows[at])
		e.Started = time.Duration(80-10*i) * time.Minute
		r.settled(e)
	}
	r.Advance(t, time.Hour)
	r.present()
	r.fold()
	r.wants("rollback", id, "rolling_back")
	slices.Reverse(started)
	var order []task.ID
	for range 4 {
		got := r.step(2)
		require.Equal(t, 2, got.Rows)
		if len(order) == 0 {
			// What is there already is claimed in that order, and what comes later does not come before it.
			order = append(order, ids(r.claim(wantOf(kind, task.Rollback, 1)))...)
		}
	}
	r.steps()
	for {
		got := r.claim(wantOf(kind, task.Rollback, 3))
		if len(got) == 0 {
			break
		}
		order = append(order, ids(got)...)
	}
	require.Equal(t, started, order)
	for _, row := range order {
		require.WithinDuration(t, r.now(), r.get(row).RunAt, slack, "they are due at once")
	}
}

func batchRollbackAnswers(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.bulks("rollback") {
		id, _ := r.batchOf(2, store.BatchRequest{})
		row := r.claim(wantOf(kind, task.Run, 1))[0]
		r.gets(rollBack, id, "alice", "rolling_back")
		r.still(id, func() { r.gets(rollBack, id, "bob", "rolling_back") })
		r.steps()
		r.settled(finish(row))
		r.steps()
		r.still(id, func() { r.gets(rollBack, id, "bob", "rolling_back") })
		r.rollBackAll()
		r.over()
		r.still(id, func() { r.gets(rollBack, id, "bob", "rolled_back") })
		require.Equal(t, "alice", r.look(id).RequestedBy, way)

		id, _ = r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: oneWayKind})
		r.settled(finish(r.claimOne(oneWayKind, task.Run)))
		r.fold()
		r.still(id, func() { r.gets(rollBack, id, "bob", "succeeded") })
		id, _ = r.batch(store.BatchRequest{})
		r.fold()
		r.still(id, func() { r.gets(rollBack, id, "bob", "succeeded") })
	}
}

func batchRollbackSteps(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(10, store.BatchRequest{})
	rows := r.claim(wantOf(kind, task.Run, 7))
	for _, row := range rows {
		r.settled(finish(row))
	}
	r.wants("rollback", id, "rolling_back")
	changed, over := 0, false
	for range 8 {
		got := r.step(3)
		changed += got.Rows
		r.reckoned(r.look(id))
		require.Zero(t, r.fold().Ended)
		if over = got.Ended; over {
			require.Equal(t, "rollback", got.Verb)
			require.EqualValues(t, 10, got.Done)
			break
		}
	}
	require.True(t, over)
	require.Equal(t, 10, changed, "three are cancelled, and seven rolled back")
	r.in(task.StateRollbackPending, all[:7]...)
	r.in(task.StateCancelled, all[7:]...)
	for range 2 {
		r.rollBackAll()
		r.over()
	}
	r.in(task.StateRolledBack, all[:7]...)
	r.inState(id, store.BatchRolledBack)
}

func batchRollbackKeys(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, Key: "a"}, store.EnqueueRequest{Type: kind, Key: "b"})
	r.runAll(task.StateSucceeded)
	r.fold()
	live := r.enqueue(store.EnqueueRequest{Type: kind, Key: "a", In: farOff}, true)
	r.wants("rollback", id, "rolling_back")
	require.Equal(t, 1, r.steps())
	r.in(task.StateSucceeded, all[0])
	r.in(task.StatePending, live)
	require.EqualValues(t, 1, r.look(id).Refused)
	r.rollBackAll()
	r.over()
	require.EqualValues(t, 1, r.inState(id, store.BatchRolledBack).Refused)
	require.Equal(t, store.Became("cancelled"), r.cancel(live, ""))
	r.wants("rollback", id, "rolling_back")
	require.Equal(t, 1, r.steps())
	r.rollBackAll()
	r.over()
	r.in(task.StateRolledBack, all...)
	require.Zero(t, r.inState(id, store.BatchRolledBack).Refused)
}

func batchRollbackSupersedes(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, rollBack := range r.bulks("rollback") {
		id, all := r.batchOf(4, store.BatchRequest{})
		rows := r.claim(wantOf(kind, task.Run, 2))
		r.settled(finish(rows[0]))
		r.wants("cancel", id, "cancelling")
		r.step(1)
		r.gets(rollBack, id, "bob", "rolling_back")
		got := r.inState(id, store.BatchRollingBack)
		require.Equal(t, "rollback", got.Operation)
		require.Equal(t, "bob", got.RequestedBy)
		require.Zero(t, got.Round)
		r.still(id, func() { r.wants("cancel", id, "rolling_back") })
		r.steps()
		r.settled(finish(rows[1]))
		r.steps()
		r.in(task.StateRollbackPending, all[:2]...)
		r.in(task.StateCancelled, all[2:]...)
		require.False(t, r.step(10).Found, "both are over")
		r.rollBackAll()
		r.over()
		r.inState(id, store.BatchRolledBack)
	}
}

func batchStopsRetry(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, verb := range []string{"cancel", "rollback"} {
		for _, do := range r.bulks(verb) {
			id, all := r.batchOf(4, store.BatchRequest{})
			r.runAll(task.StateFailed)
			r.fold()
			r.wants("retry", id, "retrying")
			require.Equal(t, 2, r.step(2).Rows)
			_, err := do(r.ctx, id, "bob")
			require.NoError(t, err)
			got := r.look(id)
			require.Equal(t, verb, got.Operation)
			require.Equal(t, 1, got.Round, "it goes on in the round that the retry began")
			r.over()
			for _, row := range all[2:] {
				require.Zero(t, r.get(row).Round, "the retry came no further")
			}
			r.rollBackAll()
			r.over()
			require.True(t, r.look(id).State.Ended())
			require.Empty(t, r.claim(wantOf(kind, task.Run, 10)))
			for _, row := range all[:2] {
				require.Equal(t, task.StateRolledBack, r.state(row), "it was started once, and has been rolled back")
			}
		}
	}
}

// halfExpired creates a batch that has ended, of whose four rows the first two are past their retention.
func (r *opsRig) halfExpired() (task.BatchID, []task.ID) {
	r.t.Helper()
	id, all := r.batchOf(4, store.BatchRequest{FinishType: "finish"})
	for _, row := range r.claim(wantOf(kind, task.Run, 2)) {
		r.settled(finish(row))
	}
	r.Advance(r.t, 5*day)
	r.present()
	for _, row := range r.claim(wantOf(kind, task.Run, 2)) {
		r.settled(finish(row))
	}
	r.fold()
	r.Advance(r.t, 4*day)
	r.present()
	r.maintain(7 * day)
	r.gone(all[0])
	r.gone(all[1])
	r.in(task.StateSucceeded, all[2:]...)
	return id, all
}

func batchPastRetention(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	forced := map[string]bulk{
		"Go": func(ctx context.Context, id task.BatchID, by string) (string, error) {
			return r.h.RollbackBatch(ctx, id, by, true)
		},
		"SQL": func(ctx context.Context, id task.BatchID, by string) (string, error) {
			return r.sql.RollbackBatch(ctx, id, by, true)
		},
	}
	for way, rollBack := range r.bulks("rollback") {
		id, all := r.halfExpired()
		notified := len(r.finished("finish"))
		r.still(id, func() {
			_, err := rollBack(r.ctx, id, "alice")
			refusal(t, way, err, "2", "4", "force")
		})
		require.False(t, r.step(10).Found, way)
		require.Zero(t, r.fold().Ended, way)
		r.gets(forced[way], id, "alice", "rolling_back")
		require.Equal(t, 2, r.steps(), way)
		r.rollBackAll()
		r.over()
		r.in(task.StateRolledBack, all[2:]...)
		got := r.look(id)
		require.Equal(t, store.BatchRolledBack, got.State, way)
		require.EqualValues(t, 4, got.Total, way)
		require.EqualValues(t, 2, got.RolledBack, way)
		require.EqualValues(t, 2, got.Succeeded, "of these only the counter is left")
		require.Len(t, r.finished("finish"), notified+1)
	}
}

func batchRollbackFails(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(2, store.BatchRequest{})
	r.runAll(task.StateSucceeded)
	r.fold()
	r.wants("rollback", id, "rolling_back")
	r.steps()
	rows := r.claim(wantOf(kind, task.Rollback, 2))
	r.settled(ended(rows[0], task.Rejected, task.StateRollbackFailed), ended(rows[1], task.Succeeded, task.StateRolledBack))
	r.over()
	r.inState(id, store.BatchRollbackFailed)
	r.still(id, func() { r.wants("rollback", id, "rollback_failed") })
	r.did(became(task.StateRollbackPending), r.h.Rollback, rows[0].ID, "alice")
	require.Equal(t, 2, r.inState(id, store.BatchRollingBack).Round)
	r.rollBackAll()
	r.over()
	r.in(task.StateRolledBack, all...)
	r.inState(id, store.BatchRolledBack)
}

func batchRollsBackNothing(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(3, store.BatchRequest{})
	r.wants("rollback", id, "rolling_back")
	require.Equal(t, 3, r.steps())
	r.in(task.StateCancelled, all...)
	require.Equal(t, 1, r.fold().Ended)
	r.inState(id, store.BatchRolledBack)
	require.Empty(t, r.claim(wantOf(kind, task.Rollback, 10)))
}
