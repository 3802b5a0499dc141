package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func rollbackChecks() []Check {
	return slices.Concat([]Check{
		{"in every state", rollbackStates},
		{"in every state, of a type that cannot be rolled back", rollbackOneWay},
		{"what can be rolled back", rollbackCan},
		{"what is not there", rollbackAbsent},
		{"what it writes", rollbackWrites},
		{"the cause", rollbackCause},
		{"while it waits", rollbackWaiting},
		{"while it waits, and something may be at work", rollbackOverhanging},
		{"a type that got its rollback later", rollbackLater},
		{"a row that was claimed under another name", rollbackAlias},
		{"the attempt that ended leaves its history", rollbackHistory},
		{"a rollback that failed, again", rollbackAgain},
		{"a retry, and then", rollbackRetried},
		{"a live row with its key", rollbackKey},
		{"the requester is noted", rollbackAudit},
		{"it wakes listeners", rollbackWakes},
		{"a crash loses and doubles nothing", rollbackCrash},
	}, rollbackRunningChecks())
}

// assertRolledBack asserts that a request has made the row wait for its rollback.
func (r *opsRig) assertRolledBack(id task.ID, before *store.TaskInfo, cause task.Verdict, reason string) *store.TaskInfo {
	r.t.Helper()
	got := r.get(id)
	require.Equal(r.t, task.StateRollbackPending, got.State, reason)
	require.Equal(r.t, before.Fence+1, got.Fence, reason)
	require.Equal(r.t, cause, got.Cause, reason)
	require.Zero(r.t, got.Attempt, reason)
	require.Zero(r.t, got.Deferrals, reason)
	require.True(r.t, got.EverStarted, reason)
	require.Nil(r.t, got.FinishedAt, reason)
	require.Nil(r.t, got.CancelRequested, reason)
	require.Empty(r.t, got.CancelRequestedBy, reason)
	require.Equal(r.t, before.Round, got.Round, reason)
	return got
}

func rollbackStates(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		for _, everStarted := range []bool{false, true} {
			for _, s := range plainStates() {
				id := r.rowIn(store.EnqueueRequest{Type: kind}, s, everStarted)
				before := r.get(id)
				reason := way + ", " + string(s)
				switch {
				case s.Phase() == task.Rollback || s == task.StateRolledBack:
					r.idle(id, func() { r.did(became(s), rollBack, id, "alice") })
				case s == task.StateRunning:
					r.did(store.Cancelling, rollBack, id, "alice")
					got := r.get(id)
					require.NotNil(t, got.CancelRequested, reason)
					require.Equal(t, "alice", got.CancelRequestedBy, reason)
					before.CancelRequested, before.CancelRequestedBy = got.CancelRequested, got.CancelRequestedBy
					require.Equal(t, before, got, reason)
				case s == task.StateRollbackFailed || before.EverStarted:
					r.did(became(task.StateRollbackPending), rollBack, id, "alice")
					r.assertRolledBack(id, before, r.get(id).Cause, reason)
					r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
				case s.Waiting():
					r.did(became(task.StateCancelled), rollBack, id, "alice")
					r.calledOff(before, "cancelled before it started", "alice")
				default:
					r.idle(id, func() { r.did(became(s), rollBack, id, "alice") })
				}
				if s.Running() {
					r.letGo(id)
					r.steps()
					r.rollBackAll()
				}
			}
		}
	}
}

// rollBackAll rolls back whatever is due to be.
func (r *opsRig) rollBackAll() {
	r.t.Helper()
	for _, row := range r.claim(wantOf(kind, task.Rollback, 100)) {
		r.settled(ended(row, task.Succeeded, task.StateRolledBack))
	}
}

func rollbackOneWay(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		for _, everStarted := range []bool{false, true} {
			for _, s := range plainStates() {
				id := r.rowIn(store.EnqueueRequest{Type: oneWayKind}, s, everStarted)
				r.idle(id, func() {
					got, err := rollBack(r.ctx, id, "alice")
					if s.Phase() == task.Rollback || s == task.StateRolledBack {
						require.NoError(t, err, "%s, %s", way, s)
						require.Equal(t, became(s), got, way)
						return
					}
					refusal(t, way, err, `the type "`+oneWayKind+`" has no rollback`)
				})
				if s.Running() {
					r.letGo(id)
				}
			}
		}
	}
	require.False(t, r.step(100).Found, "nothing is left to be carried on")
}

// rollbackCan asks what can be rolled back before that is requested.
func rollbackCan(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	can := func(want bool, typ string, id task.ID) {
		t.Helper()
		got, err := h.CanRollBack(r.ctx, typ, id)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	of := func(want bool, types ...string) {
		t.Helper()
		var rows []store.EnqueueRequest
		for _, typ := range types {
			rows = append(rows, store.EnqueueRequest{Type: typ})
		}
		id, _ := r.batch(store.BatchRequest{}, rows...)
		for way := range 2 { // while they wait, and once they are finished
			got, err := h.BatchCanRollBack(r.ctx, id)
			require.NoError(t, err)
			require.Equal(t, want, got, way)
			for _, typ := range types {
				for _, row := range r.claim(wantOf(typ, task.Run, 1)) {
					r.settled(finish(row))
				}
			}
		}
	}
	can(true, kind, 0)
	can(false, oneWayKind, 0)
	can(false, "of which nothing is known", 0)
	held := r.heldUnder(beating())
	can(true, oneWayKind, held.ID) // by the policy that its attempt began with
	r.settled(finish(held))
	can(true, oneWayKind, held.ID)
	of(true, kind)
	of(false, oneWayKind, oneWayKind)
	of(true, oneWayKind, kind)
	of(false)
}

func rollbackAbsent(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.absent(r.h.Rollback, r.sql.Rollback)
}

func rollbackWrites(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		for _, s := range []task.State{task.StateSucceeded, task.StateFailed, task.StateCancelled} {
			id := r.wasted(way+string(s), s)
			r.Advance(t, time.Hour)
			r.present()
			before := r.get(id)
			r.did(became(task.StateRollbackPending), rollBack, id, "alice")
			got := r.assertRolledBack(id, before, verdictFor(s), way)
			near(t, r.now(), got.RunAt)
			sameDeclared(t, before, got)
			sameOr(t, before.RollbackPayload, got.RollbackPayload, way)
			sameOr(t, raw(`{"page":4}`), got.Result, way)
			sameOr(t, raw(`{"page":4}`), got.Checkpoint, way)
			require.Equal(t, "page 4", got.Message, way)
			require.Equal(t, before.Outcome, got.Outcome, way)
			require.Equal(t, before.Error, got.Error, way)
			require.Equal(t, before.History, got.History, way)
			require.Len(t, r.list(store.TaskFilter{Key: way + string(s)}), 1, "it is there once")
			require.Empty(t, r.claim(wantOf(kind, task.Run, 1)), way)
			back := r.claimOne(kind, task.Rollback)
			require.Equal(t, id, back.ID)
			require.Equal(t, 1, back.Attempt, way)
			require.Equal(t, verdictFor(s), back.Cause, way)
			sameOr(t, raw(`{"page":4}`), back.Result, way)
			r.settled(ended(back, task.Succeeded, task.StateRolledBack))
		}
	}
}

func rollbackCause(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, c := range []struct {
		state          task.State
		verdict, cause task.Verdict
	}{
		{task.StateSucceeded, task.Succeeded, task.Succeeded},
		{task.StateFailed, task.Failed, task.Failed},
		{task.StateFailed, task.TimedOut, task.TimedOut},
		{task.StateFailed, task.Stalled, task.Stalled},
		{task.StateFailed, task.Lost, task.Lost},
		{task.StateFailed, task.Rejected, task.Rejected},
		{task.StateFailed, task.Deferred, task.Failed},
		{task.StateCancelled, task.Cancelled, task.Cancelled},
		{task.StateCancelled, task.TimedOut, task.Cancelled},
		{task.StateCancelled, task.Drained, task.Cancelled},
	} {
		row := r.heldUnder(beating())
		r.settled(ended(row, c.verdict, c.state))
		before := r.get(row.ID)
		require.Empty(t, before.Cause)
		r.did(became(task.StateRollbackPending), r.h.Rollback, row.ID, "")
		r.assertRolledBack(row.ID, before, c.cause, string(c.state)+" after "+string(c.verdict))
		r.rollBackAll()
		require.Equal(t, c.cause, r.get(row.ID).Cause)
	}
}

func rollbackWaiting(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		row := r.heldUnder(beating())
		end := retry(row, time.Hour)
		end.Next.Deferrals, end.Outcome.Result = 2, raw(`{"page":4}`)
		r.settled(end)
		before := r.get(row.ID)
		r.did(became(task.StateRollbackPending), rollBack, row.ID, "alice")
		got := r.assertRolledBack(row.ID, before, task.Cancelled, way)
		require.Equal(t, task.Cancelled, got.Outcome, way)
		require.Equal(t, "cancelled while it waited, by alice", got.Error, way)
		near(t, r.now(), got.RunAt)
		sameOr(t, raw(`{"page":4}`), got.Result, way)
		require.Equal(t, before.History, got.History, "nothing was held")
		r.idle(row.ID, func() { r.did(became(task.StateRollbackPending), rollBack, row.ID, "bob") })
		r.rollBackAll()
	}
}

func rollbackOverhanging(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		row, _ := r.overHanging(kind)
		r.did(became(task.StateRollbackPending), rollBack, row.ID, "alice")
		require.WithinDuration(t, row.LeaseEnd, r.get(row.ID).RunAt, time.Millisecond, way)
		require.Empty(t, r.claim(wantOf(kind, task.Rollback, 1)), way)
		r.Advance(t, beating().Window(task.Run)+time.Minute)
		r.present()
		require.Equal(t, row.ID, r.claimOne(kind, task.Rollback).ID, way)
		r.letGo(row.ID)
	}
}

func rollbackLater(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, way := range []string{"Go", "SQL"} {
		typ := "suite.later by " + way
		before, after := oneWayPolicy(), oneWayPolicy()
		before.Timeout += time.Duration(len(way)) * time.Second
		after.Timeout += time.Duration(len(way)) * time.Minute
		after.Rollback = beating().Rollback
		r.declare(typ, before)
		held := func(s task.State) task.ID {
			id := r.Insert(t, store.EnqueueRequest{Type: typ})[0]
			w := wantOf(typ, task.Run, 1)
			w.Policy = before.Hash("a")
			e := ended(r.claim(w)[0], verdictFor(s), s)
			e.Next.Delay = farOff
			r.settled(e)
			return id
		}
		waits, done := held(task.StateRetryPending), held(task.StateSucceeded)
		r.idle(done, func() {
			_, err := r.rollbacks()[way](r.ctx, done, "alice")
			refusal(t, way, err, "has no rollback")
		})
		r.declare(typ, after)
		called := held(task.StateRetryPending)
		require.Equal(t, store.Became("cancelled"), r.cancel(called, ""), "a cancellation goes by what the attempt started with")
		for _, id := range []task.ID{waits, done, called} {
			r.did(became(task.StateRollbackPending), r.rollbacks()[way], id, "alice")
		}
	}
}

func rollbackAlias(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		id := r.rowIn(store.EnqueueRequest{Type: "an old name"}, task.StateSucceeded, true)
		r.did(became(task.StateRollbackPending), rollBack, id, "alice")
		r.settled(ended(r.claimOne("an old name", task.Rollback), task.Succeeded, task.StateRolledBack))
		id = r.Insert(t, store.EnqueueRequest{Type: "an old name", In: farOff})[0]
		_, err := rollBack(r.ctx, id, "alice")
		refusal(t, way, err, "has no rollback")
	}
}

func rollbackHistory(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		for _, s := range []task.State{task.StateSucceeded, task.StateFailed} {
			row := r.heldUnder(beating())
			end := ended(row, verdictFor(s), s)
			end.Outcome.Result, end.Outcome.Output = raw(`{"page":4}`), "some output"
			r.settled(end)
			finished := r.get(row.ID)
			r.did(became(task.StateRollbackPending), rollBack, row.ID, "alice")
			got := r.get(row.ID).History
			require.Len(t, got, 1, way)
			require.Equal(t, row.Fence, got[0].Fence, way)
			require.Equal(t, r.session, got[0].Session, way)
			require.Equal(t, s, got[0].State, way)
			require.Equal(t, verdictFor(s), got[0].Outcome, way)
			require.Equal(t, finished.Error, got[0].Error, way)
			require.Equal(t, "some output", got[0].Output, way)
			require.NotNil(t, got[0].StartedAt, way)
			require.WithinDuration(t, *finished.FinishedAt, got[0].EndedAt, time.Millisecond, way)
			r.unchanged(row.ID, func() { require.Equal(t, same(store.Ended, 1), r.settle(end), "a repeat") })
			back := r.claimOne(kind, task.Rollback)
			require.Equal(t, row.Fence+3, back.Fence, "settled, revived, claimed")
			e := ended(back, task.Succeeded, task.StateRolledBack)
			r.settled(e)
			require.Equal(t, same(store.Ended, 2), r.settle(end, e), "repeats of both")
			require.Len(t, r.get(row.ID).History, 2, way)
		}
	}
}

func rollbackAgain(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, rollBack := range r.rollbacks() {
		row := r.heldUnder(beating())
		r.settled(ended(row, task.Stalled, task.StateRollbackPending))
		for range 3 {
			e := ended(r.claimOne(kind, task.Rollback), task.Rejected, task.StateRollbackFailed)
			e.Next.Attempt = 6
			r.settled(e)
			r.idle(row.ID, func() { r.did(became(task.StateRollbackFailed), r.h.Retry, row.ID, "") })
			before := r.get(row.ID)
			r.did(became(task.StateRollbackPending), rollBack, row.ID, "alice")
			got := r.assertRolledBack(row.ID, before, task.Stalled, "the cause is still the same")
			require.Equal(t, before.History, got.History)
		}
		r.rollBackAll()
		require.Equal(t, task.StateRolledBack, r.state(row.ID))
	}
}

func rollbackRetried(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateSucceeded, true)
	fence := task.Fence(0)
	for round := range 3 {
		r.did(became(task.StateRollbackPending), r.h.Rollback, id, "")
		r.rollBackAll()
		r.did(became(task.StatePending), r.h.Retry, id, "")
		row := r.claimOne(kind, task.Run)
		require.Equal(t, round+1, row.Round)
		require.Greater(t, row.Fence, fence)
		fence = row.Fence
		r.settled(finish(row))
		require.Len(t, r.get(id).History, 2*(round+1))
		require.Empty(t, r.get(id).Cause)
	}
}

func rollbackKey(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, rollBack := range r.rollbacks() {
		q := store.EnqueueRequest{Type: kind, Key: "invoice-7"}
		id := r.rowIn(q, task.StateSucceeded, true)
		q.In = farOff
		live := r.Insert(t, q)[0]
		r.idle(live, func() {
			r.idle(id, func() {
				_, err := rollBack(r.ctx, id, "alice")
				refusal(t, way, err, "task "+number(live)+" is live with the key", "invoice-7", "wait for it or cancel it")
			})
		})
		require.Equal(t, store.Became("cancelled"), r.cancel(live, ""))
		r.did(became(task.StateRollbackPending), rollBack, id, "alice")
		require.Equal(t, id, r.enqueue(q, false), "while it is rolled back its key is its own")
		r.rollBackAll()
	}
}

func rollbackAudit(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, rollBack := range r.rollbacks() {
		for s, answer := range map[task.State]string{
			task.StateSucceeded: "rollback_pending", task.StateRetryPending: "rollback_pending", task.StateRunning: "cancelling",
		} {
			id := r.rowIn(store.EnqueueRequest{Type: kind}, s, true)
			r.audited(func() { r.did(store.Became(answer), rollBack, id, "alice") },
				Audited{Who: "alice", Verb: "rollback", Task: id, Answer: answer})
			r.idle(id, func() { r.did(store.Became(answer), rollBack, id, "bob") })
			if s == task.StateRunning {
				r.letGo(id)
				r.audited(func() { r.steps() })
			}
			r.rollBackAll()
			require.Equal(t, task.StateRolledBack, r.state(id))
		}
	}
	id := r.insertFar()
	r.audited(func() { require.Equal(t, store.Became("cancelled"), r.cancel(id, "alice")) },
		Audited{Who: "alice", Verb: "cancel", Task: id, Answer: "cancelled"})
	r.idle(id, func() { require.Equal(t, store.Became("cancelled"), r.cancel(id, "bob")) })
}
