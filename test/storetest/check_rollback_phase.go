package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func rollbackPhaseChecks() []Check {
	return []Check{
		{"a rollback payload by every way to enqueue", rollbackPayloadByEnqueue},
		{"a batch by every way to enqueue", batchByEnqueue},
		{"a rollback payload as it was", rollbackPayloadKept},
		{"what a rollback gets", rollbackNotified},
		{"the cause is how the run ended", rollbackPhaseCause},
		{"the cause of a row that waited", rollbackPhaseCauseWaiting},
		{"the cause of a row that was to be cancelled", rollbackPhaseCauseRequested},
		{"the cause stays", rollbackPhaseCauseStays},
		{"the error stays that of the run", rollbackPhaseError},
		{"the error of a run that was cancelled while it waited", rollbackPhaseErrorCancelled},
		{"a run that succeeded has no error", rollbackPhaseErrorSucceeded},
		{"the run's result stays", rollbackResult},
		{"the run's result stays when the rollback is completed", rollbackResultCompleted},
		{"a row of which something may be at work keeps its lease's end", rollbackLease},
		{"a row of which something may be at work has no holder", rollbackLeaseNoHolder},
		{"cancelled while something may be at work", rollbackLeaseCancelled},
		{"cancelled when nothing is at work any more", rollbackLeaseOver},
		{"revived while something may be at work", rollbackLeaseFinished},
	}
}

func rollbackPayloadByEnqueue(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for name, add := range r.ways() {
		none := r.get(add(store.EnqueueRequest{Type: kind}))
		require.Nil(t, none.RollbackPayload, name)
		require.Empty(t, none.Cause, name)
		require.Zero(t, none.Batch, name)
		require.Zero(t, none.Round, name)
		id := add(store.EnqueueRequest{Type: "undoable", RollbackPayload: raw(`{"was":"az1"}`)})
		sameOr(t, raw(`{"was":"az1"}`), r.get(id).RollbackPayload, name)
		row := r.claimOne("undoable", task.Run)
		sameOr(t, raw(`{"was":"az1"}`), row.RollbackPayload, name)
		require.Empty(t, row.Cause, name)
		require.Zero(t, row.Batch, name)
		require.Zero(t, row.Round, name)
		r.settled(finish(row))
		sameOr(t, raw(`{"was":"az1"}`), r.get(id).RollbackPayload, name+", archived")
		require.Empty(t, r.get(id).Cause, name)
	}
}

func batchByEnqueue(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	of, _ := r.batch(store.BatchRequest{Open: true})
	for name, add := range r.ways() {
		id := add(store.EnqueueRequest{Type: "of a batch", Batch: of})
		require.Equal(t, of, r.get(id).Batch, name)
		row := r.claimOne("of a batch", task.Run)
		require.Equal(t, of, row.Batch, name)
		r.settled(finish(row))
		require.Equal(t, of, r.get(id).Batch, name)
	}
	other := r.insert(1)[0]
	list := r.list(store.TaskFilter{Batch: of})
	require.Len(t, list, 3)
	require.NotContains(t, list, other)
	require.Len(t, r.list(store.TaskFilter{}), 4)
	require.Empty(t, r.list(store.TaskFilter{Batch: of + 1000}))
}

func rollbackPayloadKept(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, text := range []string{`null`, `0`, `[]`, `"text"`, `{"a":{"b":[1,2.5,null]},"ü":"☃"}`, `12345678901234567890.5`} {
		id := r.Insert(t, store.EnqueueRequest{Type: kind, RollbackPayload: raw(text)})[0]
		sameOr(t, raw(text), r.get(id).RollbackPayload, text)
		row := r.claimOne(kind, task.Run)
		sameOr(t, raw(text), row.RollbackPayload, text)
		r.settled(finish(row))
	}
	refused := expect(t, func(t testing.TB) { r.Insert(t, store.EnqueueRequest{Type: kind, RollbackPayload: raw(`{`)}) })
	require.NotEmpty(t, refused, "what is no JSON")
}

func rollbackNotified(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	b, ids := r.batch(store.BatchRequest{}, store.EnqueueRequest{
		Type: kind, Payload: raw(`{"to":"az2"}`), RollbackPayload: raw(`{"was":"az1"}`),
	})
	e := ended(r.claimOne(kind, task.Run), task.TimedOut, task.StateRollbackPending)
	e.Outcome.Result = raw(`{"moved":3}`)
	r.settled(e)
	notified := func(row task.Task) {
		t.Helper()
		require.Equal(t, ids[0], row.ID)
		require.Equal(t, task.StateRollbackRunning, row.State)
		require.Equal(t, task.TimedOut, row.Cause)
		require.Equal(t, b, row.Batch)
		require.Equal(t, 1, row.Attempt)
		require.True(t, row.EverStarted)
		require.Equal(t, &task.Previous{Outcome: task.TimedOut, Error: "it broke"}, row.Previous)
	}
	documents := func(row task.Task) {
		t.Helper()
		sameOr(t, raw(`{"moved":3}`), row.Result, "result")
		sameOr(t, raw(`{"was":"az1"}`), row.RollbackPayload, "rollback payload")
		sameOr(t, raw(`{"to":"az2"}`), row.Payload, "payload")
	}
	row := r.claimOne(kind, task.Rollback)
	notified(row)
	documents(row)
	again, err := r.Claimed(r.ctx, r.session, r.claims)
	require.NoError(t, err)
	require.Len(t, again, 1)
	notified(again[0])
	documents(again[0])
	// A reaper gets the same, except for the documents, which it does not need.
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := r.twin().sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, row.Fence+1, reaped[0].Fence)
	notified(reaped[0].Task)
}

func rollbackPhaseCause(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for verdict, cause := range map[task.Verdict]task.Verdict{
		task.Failed: task.Failed, task.Rejected: task.Rejected, task.TimedOut: task.TimedOut, task.Stalled: task.Stalled,
		task.Lost: task.Lost, task.Cancelled: task.Cancelled,
		// These give the attempt back: only the task's deadline makes that the end of it.
		task.Deferred: task.Failed, task.Superseded: task.Failed, task.Undelivered: task.Failed, task.Drained: task.Failed,
	} {
		row := r.heldUnder(beating())
		r.settled(ended(row, verdict, task.StateRollbackPending))
		require.Equal(t, cause, r.get(row.ID).Cause, verdict)
		back := r.claimOne(kind, task.Rollback)
		require.Equal(t, cause, back.Cause, verdict)
		r.settled(ended(back, task.Succeeded, task.StateRolledBack))
		require.Equal(t, cause, r.get(row.ID).Cause, verdict)
	}
}

// hasError asserts what users see as the error of a task, alone and in a list.
func (r *opsRig) hasError(id task.ID, want, reason string) {
	r.t.Helper()
	require.Equal(r.t, want, r.get(id).Error, reason)
	all, err := r.List(r.ctx, store.TaskFilter{})
	require.NoError(r.t, err)
	require.Len(r.t, all, 1)
	require.Equal(r.t, want, all[0].Error, reason+", in a list")
}

func rollbackPhaseError(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	b, ids := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind})
	id := ids[0]
	of := func(row task.Task, v task.Verdict, s task.State, text string) store.Settlement {
		e := ended(row, v, s)
		e.Outcome.Error = text
		return e
	}
	r.settled(of(r.claimOne(kind, task.Run), task.Failed, task.StateRetryPending, "answered 502"))
	r.hasError(id, "answered 502", "waiting")
	r.settled(of(r.claimOne(kind, task.Run), task.Failed, task.StateRollbackPending, "answered 500"))
	r.hasError(id, "answered 500", "no rollback has ended")
	row := r.claimOne(kind, task.Rollback)
	r.hasError(id, "answered 500", "the first rollback")
	r.settled(of(row, task.Failed, task.StateRollbackPending, "exit code 7"))
	r.hasError(id, "answered 500", "a rollback has failed")
	row = r.claimOne(kind, task.Rollback)
	require.Equal(t, &task.Previous{Outcome: task.Failed, Error: "exit code 7"}, row.Previous, "a rollback gets the error of the one before")
	r.hasError(id, "answered 500", "the second rollback")
	r.settled(of(row, task.Rejected, task.StateRollbackFailed, "exit code 8"))
	r.hasError(id, "exit code 8", "it could not be rolled back")
	r.did(became(task.StateRollbackPending), r.h.Rollback, id, "alice")
	r.hasError(id, "answered 500", "once more")
	r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	r.hasError(id, "answered 500", "rolled back")
	require.Equal(t, task.Succeeded, r.get(id).Outcome, "that of the rollback")
	require.Equal(t, task.Failed, r.get(id).Cause, "that of the run")
	list, err := r.List(r.ctx, store.TaskFilter{Batch: b})
	require.NoError(t, err)
	require.Equal(t, "answered 500", list[0].Error, "in the list of a batch")
}

func rollbackPhaseErrorCancelled(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	row := r.heldUnder(beating())
	r.settled(retry(row, time.Hour))
	r.did(became(task.StateRollbackPending), r.h.Cancel, row.ID, "alice")
	r.hasError(row.ID, "cancelled while it waited, by alice", "waiting to be rolled back")
	r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	r.hasError(row.ID, "it broke", "the last attempt that ran")
}

func rollbackPhaseErrorSucceeded(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	row := r.heldUnder(beating())
	r.settled(retry(row, 0))
	r.settled(finish(r.claimOne(kind, task.Run)))
	r.did(became(task.StateRollbackPending), r.h.Rollback, row.ID, "alice")
	back := r.claimOne(kind, task.Rollback)
	r.settled(ended(back, task.Failed, task.StateRollbackPending))
	r.hasError(row.ID, "", "a rollback has failed")
	r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	r.hasError(row.ID, "", "rolled back")
}

func rollbackPhaseCauseWaiting(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, cancel := range r.cancellations() {
		row := r.heldUnder(beating())
		r.settled(retry(row, time.Hour))
		require.Empty(t, r.get(row.ID).Cause, way)
		require.Equal(t, store.Became("rollback_pending"), cancel(row.ID, "alice"), way)
		require.Equal(t, task.Cancelled, r.get(row.ID).Cause, way)
		back := r.claimOne(kind, task.Rollback)
		require.Equal(t, task.Cancelled, back.Cause, way)
		r.settled(ended(back, task.Succeeded, task.StateRolledBack))
	}
	for _, s := range []task.State{task.StateSucceeded, task.StateFailed, task.StateCancelled, task.StateRetryPending} {
		require.Empty(t, r.get(r.rowIn(store.EnqueueRequest{Type: kind}, s, true)).Cause, "%s is not rolled back", s)
	}
}

func rollbackPhaseCauseRequested(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, verdict := range []task.Verdict{task.Cancelled, task.Failed, task.TimedOut, task.Drained} {
		row := r.heldUnder(beating())
		require.Equal(t, store.Cancelling, r.cancel(row.ID, "alice"))
		e := ended(row, verdict, task.StateRollbackPending)
		e.CancelKnown = true
		r.settled(e)
		require.Equal(t, task.Cancelled, r.get(row.ID).Cause, verdict)
		r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	}
}

func rollbackPhaseCauseStays(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, last := range []task.State{task.StateRolledBack, task.StateRollbackFailed} {
		row := r.heldUnder(beating())
		r.settled(ended(row, task.Stalled, task.StateRollbackPending))
		for _, verdict := range []task.Verdict{task.Failed, task.Lost, task.Deferred} {
			r.settled(ended(r.claimOne(kind, task.Rollback), verdict, task.StateRollbackPending))
			require.Equal(t, task.Stalled, r.get(row.ID).Cause, verdict)
		}
		back := r.claimOne(kind, task.Rollback)
		require.Equal(t, task.Stalled, back.Cause)
		require.Equal(t, task.Deferred, back.Previous.Outcome, "what became of the attempt before is another matter")
		r.settled(ended(back, verdictFor(last), last))
		require.Equal(t, task.Stalled, r.get(row.ID).Cause, last)
	}
}

func rollbackResult(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, of := range []string{"", `{"moved":3}`} {
		for _, last := range []task.State{task.StateRolledBack, task.StateRollbackFailed} {
			row := r.heldUnder(beating())
			e := ended(row, task.Failed, task.StateRollbackPending)
			e.Outcome.Result = raw(of)
			r.settled(e)
			e = ended(r.claimOne(kind, task.Rollback), task.Failed, task.StateRollbackPending)
			e.Outcome.Result = raw(`{"reverted":1}`)
			r.settled(e)
			sameOr(t, raw(of), r.get(row.ID).Result, "while it is rolled back")
			back := r.claimOne(kind, task.Rollback)
			sameOr(t, raw(of), back.Result, "what the rollback is handed")
			e = ended(back, verdictFor(last), last)
			e.Outcome.Result = raw(`{"reverted":2}`)
			r.settled(e)
			got := r.get(row.ID)
			sameOr(t, raw(of), got.Result, string(last))
			require.Len(t, got.History, 3)
			sameOr(t, raw(of), got.History[0].Result, "the run's")
			sameOr(t, raw(`{"reverted":1}`), got.History[1].Result, "the first rollback's")
			sameOr(t, raw(`{"reverted":2}`), got.History[2].Result, "the second's")
		}
	}
}

func rollbackResultCompleted(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, complete := range r.completions() {
		row := r.heldUnder(beating())
		e := ended(row, task.Failed, task.StateRollbackPending)
		e.Outcome.Result = raw(`{"moved":3}`)
		r.settled(e)
		back := r.claimOne(kind, task.Rollback)
		require.True(t, complete(back.ID, back.Fence, `{"reverted":1}`), way)
		got := r.get(row.ID)
		require.Equal(t, task.StateRolledBack, got.State, way)
		sameOr(t, raw(`{"moved":3}`), got.Result, way)
		sameOr(t, raw(`{"reverted":1}`), got.History[1].Result, way)
	}
}

// overHanging is a row that waits, due at once but for what may be at work of it.
func (r *opsRig) overHanging(typ string) (row task.Task, info *store.TaskInfo) {
	r.t.Helper()
	r.Insert(r.t, store.EnqueueRequest{Type: typ})
	row = r.claimOne(typ, task.Run)
	e := ended(row, task.TimedOut, task.StateRetryPending)
	e.Next.AfterLease = true
	r.settled(e)
	return row, r.get(row.ID)
}

func rollbackLease(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	row, got := r.overHanging(kind)
	require.NotNil(t, got.LeaseEnd)
	require.WithinDuration(t, row.LeaseEnd, *got.LeaseEnd, time.Millisecond)
	require.WithinDuration(t, row.LeaseEnd, got.RunAt, time.Millisecond)
	require.Nil(t, got.ClaimedAt)
	r.Advance(t, beating().Window(task.Run)+time.Minute)
	r.present()
	again := r.claimOne(kind, task.Run)
	near(t, r.now().Add(beating().Window(task.Run)), again.LeaseEnd)
	require.Equal(t, again.LeaseEnd.UnixMilli(), r.leaseEnd(row.ID).UnixMilli())
	r.settled(retry(again, time.Hour))
	require.Nil(t, r.get(row.ID).LeaseEnd, "of that attempt nothing is left")

	// Where it is due later than that anyway, the end is kept all the same.
	r.Insert(t, store.EnqueueRequest{Type: kind})
	row = r.claimOne(kind, task.Run)
	e := retry(row, 5*time.Hour)
	e.Next.AfterLease = true
	r.settled(e)
	got = r.get(row.ID)
	near(t, r.now().Add(5*time.Hour), got.RunAt)
	require.NotNil(t, got.LeaseEnd)
	require.WithinDuration(t, row.LeaseEnd, *got.LeaseEnd, time.Millisecond)
}

func rollbackLeaseNoHolder(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	row, _ := r.overHanging(kind)
	r.unchanged(row.ID, func() {
		require.Empty(t, r.present().Held)
		require.Equal(t, store.Lost, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Hour}))
		require.Equal(t, store.Lost, r.ping(row, store.Ping{}).Answer)
		require.Equal(t, store.Lost, r.complete(row.ID, row.Fence, ""))
		gone(t, r.holdSQL(row.ID, row.Fence))
		require.Empty(t, r.claim(under(beating(), 1)), "not before the lease's end")
		claimed, err := r.Claimed(r.ctx, r.session, r.claims)
		require.NoError(t, err)
		require.Empty(t, claimed)
		require.Empty(t, r.sweep(10))
	})
	r.Advance(t, 2*time.Hour)
	r.present()
	require.Empty(t, r.sweep(10), "nor when that has passed")
	require.Equal(t, row.Fence+1, r.get(row.ID).Fence)
}

func rollbackLeaseCancelled(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, cancel := range r.cancellations() {
		row, _ := r.overHanging(kind)
		require.Equal(t, store.Became("rollback_pending"), cancel(row.ID, "alice"), way)
		got := r.get(row.ID)
		require.WithinDuration(t, row.LeaseEnd, got.RunAt, time.Millisecond, way)
		require.Empty(t, r.claim(wantOf(kind, task.Rollback, 1)), way)
		in, ok, err := r.NextDue(r.ctx, store.Claim{Session: r.session, Wants: []store.Want{wantOf(kind, task.Rollback, 1)}})
		require.NoError(t, err)
		require.True(t, ok)
		require.InDelta(t, beating().Window(task.Run).Seconds(), in.Seconds(), slack.Seconds())
		r.Advance(t, beating().Window(task.Run)+time.Minute)
		r.present()
		back := r.claimOne(kind, task.Rollback)
		require.Equal(t, row.ID, back.ID, way)
		r.settled(ended(back, task.Succeeded, task.StateRolledBack))

		row, _ = r.overHanging(oneWayKind)
		require.Equal(t, store.Became("cancelled"), cancel(row.ID, "alice"), "there is nothing to wait for")
	}
}

func rollbackLeaseOver(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, cancel := range r.cancellations() {
		row, _ := r.overHanging(kind)
		r.Advance(t, 3*time.Hour)
		r.present()
		require.Equal(t, store.Became("rollback_pending"), cancel(row.ID, "alice"), way)
		near(t, r.now(), r.get(row.ID).RunAt)
		r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	}
}

// A finished row of which something may be at work is revived no earlier than that is over; one that ended for
// certain, at once.
func rollbackLeaseFinished(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, want := range map[string]struct {
		became store.Became
		phase  task.Phase
		do     map[string]operation
	}{
		"retry":    {store.Became(task.StatePending), task.Run, r.retries()},
		"rollback": {store.Became(task.StateRollbackPending), task.Rollback, r.rollbacks()},
	} {
		for by, do := range want.do {
			for _, hanging := range []bool{true, false} {
				r.Insert(t, store.EnqueueRequest{Type: kind})
				row := r.claimOne(kind, task.Run)
				e := ended(row, task.TimedOut, task.StateFailed)
				e.Next.AfterLease = hanging
				r.settled(e)
				r.did(want.became, do, row.ID, "alice")
				if hanging {
					got := r.get(row.ID)
					require.WithinDuration(t, row.LeaseEnd, got.RunAt, time.Millisecond, "%s by %s", way, by)
					require.Empty(t, r.claim(wantOf(kind, want.phase, 1)), "%s by %s", way, by)
					r.Advance(t, beating().Window(task.Run)+time.Minute)
					r.present()
				}
				back := r.claimOne(kind, want.phase)
				require.Equal(t, row.ID, back.ID, "%s by %s", way, by)
				done := task.StateSucceeded
				if want.phase == task.Rollback {
					done = task.StateRolledBack
				}
				r.settled(ended(back, task.Succeeded, done))
			}
		}
	}
}
