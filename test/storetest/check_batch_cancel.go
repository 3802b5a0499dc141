package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func batchOpsChecks() []Check {
	return slices.Concat([]Check{
		{"cancel cancels what waits and stops what runs", batchCancels},
		{"nothing starts once a cancel has committed", batchCancelBars},
		{"what is to be rolled back starts all the same", batchCancelRollsBack},
		{"what cancel answers", batchCancelAnswers},
		{"cancel in bounded steps", batchCancelSteps},
		{"cancel is over when nothing runs", batchCancelWaits},
		{"a row that comes back while its batch is cancelled", batchCancelReleased},
		{"cancel of one whose rows have all ended", batchCancelLate},
		{"cancel of rows of which something may be at work", batchCancelOverhanging},
		{"operations that wait keep no other", batchOpsFair},
		{"an operation on a batch wakes listeners", batchOpsWake},
		{"a session learns at once what is to stop", batchCancelSeen},
	}, batchRetryChecks(), batchRollbackChecks(), batchFailureChecks())
}

func batchCancels(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, cancel := range r.bulks("cancel") {
		id, ids := r.batchOf(5, store.BatchRequest{FinishType: "finish by " + way})
		other, plain := r.insertFar(), r.insert(1)[0]
		rows := r.claim(wantOf(kind, task.Run, 4))
		r.settled(finish(rows[0]), ended(rows[1], task.Failed, task.StateFailed), retry(rows[2], farOff))
		r.audited(func() { r.gets(cancel, id, "alice", "cancelling") },
			Audited{Who: "alice", Verb: "cancel", Batch: id, Answer: "cancelling"})
		got := r.inState(id, store.BatchRunning)
		require.True(t, got.Stopping, way)
		require.True(t, got.Sealed, way)
		require.Equal(t, "alice", got.RequestedBy, way)
		require.Equal(t, "cancel", got.Operation, way)
		r.audited(func() { require.Equal(t, 3, r.steps(), "one cancelled, one to be rolled back, one to stop") })
		r.in(task.StateSucceeded, ids[0])
		r.in(task.StateFailed, ids[1])
		r.in(task.StateRollbackPending, ids[2])
		require.Equal(t, task.Cancelled, r.get(ids[2]).Cause)
		r.in(task.StateRunning, ids[3])
		r.in(task.StateCancelled, ids[4])
		r.in(task.StatePending, other, plain)
		require.Contains(t, r.get(ids[2]).Error, "cancelled while it waited, by batch "+number(id))
		require.Contains(t, r.get(ids[4]).Error, "cancelled before it started, by batch "+number(id))
		require.Contains(t, r.get(ids[4]).CancelRequestedBy, "batch "+number(id))
		require.Contains(t, r.get(ids[3]).CancelRequestedBy, "batch "+number(id))
		require.True(t, r.held0().CancelRequested, way)
		require.Zero(t, r.fold().Ended, way)
		e := ended(rows[3], task.Cancelled, task.StateCancelled)
		e.CancelKnown = true
		r.settled(e)
		require.Zero(t, r.fold().Ended, "its operation is not over")
		r.over()
		require.Empty(t, r.inState(id, store.BatchRollingBack).Operation, "one is being rolled back, and that is all")
		r.rollBackAll()
		require.Empty(t, r.finished("finish by "+way))
		require.Equal(t, 1, r.fold().Ended)
		got = r.inState(id, store.BatchCancelled)
		require.Equal(t, "alice", got.RequestedBy, way)
		require.Zero(t, got.Round, way)
		require.Len(t, r.finished("finish by "+way), 1)
		r.settled(finish(r.claimOne(kind, task.Run)))
		require.Equal(t, task.StateSucceeded, r.state(plain))
	}
}

func batchCancelBars(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	for _, verb := range []string{"cancel", "rollback"} {
		for _, do := range r.bulks(verb) {
			id, all := r.batchOf(3, store.BatchRequest{})
			waits := r.claim(wantOf(kind, task.Run, 1))[0]
			r.settled(retry(waits, 0))
			_, err := do(r.ctx, id, "alice")
			require.NoError(t, err)
			for _, agent := range []*opsRig{r, o} {
				require.Empty(t, agent.claim(wantOf(kind, task.Run, 10)))
				_, ok, err := agent.NextDue(r.ctx, store.Claim{Session: agent.session, Wants: []store.Want{wantOf(kind, task.Run, 1)}})
				require.NoError(t, err)
				require.False(t, ok, "nor is anybody to come for them")
			}
			r.in(task.StatePending, all[1:]...)
			// Others are not kept.
			plain := r.insert(2)
			other, more := r.batchOf(1, store.BatchRequest{})
			require.ElementsMatch(t, append(plain, more...), ids(o.claim(wantOf(kind, task.Run, 10))))
			for _, row := range append(plain, more...) {
				o.letGo(row)
			}
			r.over()
			r.rollBackAll()
			r.over()
			r.inState(other, store.BatchSucceeded)
			require.True(t, r.look(id).State.Ended())
		}
	}
}

func batchCancelRollsBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(2, store.BatchRequest{})
	rows := r.claim(wantOf(kind, task.Run, 2))
	r.settled(ended(rows[0], task.Failed, task.StateRollbackPending))
	r.wants("cancel", id, "cancelling")
	require.Equal(t, ids[0], r.claimOne(kind, task.Rollback).ID)
	r.letGo(ids[0])
	r.settled(ended(rows[1], task.Failed, task.StateRollbackPending))
	require.Equal(t, ids[1], r.claimOne(kind, task.Rollback).ID)
	r.letGo(ids[1])
	r.over()
	r.inState(id, store.BatchRolledBack)
}

func batchCancelAnswers(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, cancel := range r.bulks("cancel") {
		id, _ := r.batchOf(2, store.BatchRequest{})
		row := r.claim(wantOf(kind, task.Run, 1))[0]
		r.gets(cancel, id, "alice", "cancelling")
		r.still(id, func() { r.gets(cancel, id, "bob", "cancelling") })
		r.steps()
		r.still(id, func() { r.gets(cancel, id, "bob", "cancelling") })
		r.settled(finish(row))
		r.over()
		r.still(id, func() { r.gets(cancel, id, "bob", "cancelled") })
		require.Equal(t, "alice", r.look(id).RequestedBy, way)

		id, _ = r.batchOf(1, store.BatchRequest{})
		r.runAll(task.StateSucceeded)
		r.fold()
		r.still(id, func() { r.gets(cancel, id, "bob", "succeeded") })

		id, _ = r.batchOf(1, store.BatchRequest{})
		r.wants("rollback", id, "rolling_back")
		r.still(id, func() { r.gets(cancel, id, "bob", "rolling_back") })
		r.over()
		r.still(id, func() { r.gets(cancel, id, "bob", "rolled_back") })
	}
}

func batchCancelSteps(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(10, store.BatchRequest{})
	running := r.claim(wantOf(kind, task.Run, 4))
	require.False(t, r.step(3).Found, "there is none")
	r.wants("cancel", id, "cancelling")
	changed := 0
	for range 4 {
		got := r.step(3)
		require.True(t, got.Found)
		require.False(t, got.Ended)
		require.LessOrEqual(t, got.Rows, 3)
		changed += got.Rows
		r.reckoned(r.look(id))
	}
	require.Equal(t, 10, changed, "each once")
	r.in(task.StateCancelled, ids[4:]...)
	require.Zero(t, r.step(3).Rows)
	for _, row := range running {
		require.NotNil(t, r.get(row.ID).CancelRequested)
		r.settled(ended(row, task.Cancelled, task.StateCancelled))
	}
	got := r.step(3)
	require.True(t, got.Ended)
	require.Equal(t, "cancel", got.Verb)
	require.Equal(t, id, got.Batch)
	require.Zero(t, got.Task)
	require.EqualValues(t, 10, got.Done)
	require.Zero(t, got.Refused)
	require.False(t, r.step(3).Found)
	require.Equal(t, 1, r.fold().Ended)
	r.inState(id, store.BatchCancelled)
}

func batchCancelWaits(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(2, store.BatchRequest{FinishType: "finish"})
	rows := r.claim(wantOf(kind, task.Run, 2))
	r.wants("cancel", id, "cancelling")
	require.Equal(t, 2, r.steps())
	r.settled(finish(rows[0]))
	require.Zero(t, r.steps())
	require.Equal(t, "cancel", r.look(id).Operation)
	r.settled(finish(rows[1]))
	require.Empty(t, r.finished("finish"))
	r.over()
	r.inState(id, store.BatchSucceeded) // all of it had
	require.Len(t, r.finished("finish"), 1)
}

func batchCancelReleased(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, ids := r.batchOf(3, store.BatchRequest{})
	rows := r.claim(wantOf(kind, task.Run, 3))
	r.wants("cancel", id, "cancelling")
	r.settled(release(rows[0]), retry(rows[1], 0)) // before they are marked
	require.Empty(t, r.claim(wantOf(kind, task.Run, 10)))
	require.Equal(t, 3, r.steps())
	r.in(task.StateCancelled, ids[0])
	r.in(task.StateRollbackPending, ids[1])
	e := ended(rows[2], task.Drained, task.StateRetryPending)
	e.CancelKnown = true // and it goes back all the same
	r.settled(e)
	require.Empty(t, r.claim(wantOf(kind, task.Run, 10)))
	require.Equal(t, 1, r.steps())
	r.in(task.StateRollbackPending, ids[2])
	r.rollBackAll()
	r.over()
	r.inState(id, store.BatchCancelled)
}

func batchCancelLate(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(2, store.BatchRequest{})
	r.runAll(task.StateSucceeded)
	r.wants("cancel", id, "cancelling") // no fold has seen yet that it was done
	r.over()
	r.inState(id, store.BatchSucceeded)

	open, _ := r.batchOf(1, store.BatchRequest{Open: true, FinishType: "finish"})
	r.runAll(task.StateSucceeded)
	r.fold()
	r.wants("cancel", open, "cancelling")
	r.over()
	require.True(t, r.inState(open, store.BatchSucceeded).Sealed)
	require.Len(t, r.finished("finish"), 1)
}

func batchCancelOverhanging(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, verb := range []string{"cancel", "rollback"} {
		id, ids := r.batchOf(1, store.BatchRequest{})
		row := r.claimOne(kind, task.Run)
		e := ended(row, task.TimedOut, task.StateRetryPending)
		e.Next.AfterLease = true
		r.settled(e)
		_, err := r.bulks(verb)["Go"](r.ctx, id, "alice")
		require.NoError(t, err)
		require.Equal(t, 1, r.steps())
		got := r.get(ids[0])
		require.Equal(t, task.StateRollbackPending, got.State)
		require.WithinDuration(t, row.LeaseEnd, got.RunAt, time.Millisecond, verb)
		require.Empty(t, r.claim(wantOf(kind, task.Rollback, 1)), verb)
		r.Advance(t, beating().Window(task.Run)+time.Minute)
		r.present()
		r.rollBackAll()
		r.over()
		r.inState(id, store.BatchRolledBack)
	}
}

func batchOpsFair(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	first, _ := r.batchOf(1, store.BatchRequest{})
	held := r.claimOne(kind, task.Run)
	second, ids := r.batchOf(2, store.BatchRequest{})
	third, more := r.batchOf(2, store.BatchRequest{})
	r.wants("cancel", first, "cancelling")
	r.wants("cancel", second, "cancelling")
	r.wants("rollback", third, "rolling_back")
	require.Equal(t, 5, r.steps())
	r.in(task.StateCancelled, ids...)
	r.in(task.StateCancelled, more...)
	require.Equal(t, 2, r.fold().Ended)
	r.inState(first, store.BatchRunning)
	r.inState(second, store.BatchCancelled)
	r.inState(third, store.BatchRolledBack)
	r.settled(finish(held))
	r.over()
	r.inState(first, store.BatchSucceeded)
}

func batchOpsWake(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	news, stop := r.listen()
	defer stop()
	r.await(news, store.CancelNews)
	for _, way := range []string{"Go", "SQL"} {
		id, _ := r.batchOf(2, store.BatchRequest{Open: true})
		r.runAll(task.StateFailed)
		notifies := func(f func()) {
			t.Helper()
			drain(news)
			f()
			r.await(news, store.CancelNews)
		}
		if way == "Go" {
			notifies(func() { _, err := o.h.SealBatch(r.ctx, id); require.NoError(t, err) })
		} else {
			notifies(func() {
				require.NoError(t, o.inOne(func(p Producer) error { _, err := p.SealBatch(r.ctx, id); return err }))
			})
		}
		r.fold()
		notifies(func() { o.gets(o.bulks("retry")[way], id, "alice", "retrying") })
		r.steps()
		notifies(func() { o.gets(o.bulks("cancel")[way], id, "alice", "cancelling") })
		notifies(func() { o.gets(o.bulks("rollback")[way], id, "alice", "rolling_back") })
		r.over()
		r.rollBackAll()
		r.over()
	}
}
