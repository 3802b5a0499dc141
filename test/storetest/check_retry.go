package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func retryChecks() []Check {
	return []Check{
		{"what it writes", retryWrites},
		{"in any other state", retryNothing},
		{"what is not there", retryAbsent},
		{"what became of the row is known to its next attempt", retryPrevious},
		{"the attempt that ended leaves its history", retryHistory},
		{"an attempt that has its history leaves no other", retryHistoryOnce},
		{"what never ran leaves none", retryHistoryNone},
		{"the settlement before is found", retrySettled},
		{"what was started is rolled back if it is cancelled", retryEverStarted},
		{"what was rolled back counts as never started", retryNeverStarted},
		{"a new deadline", retryDeadline},
		{"a live row with its key", retryKey},
		{"its key is taken again", retryKeyTaken},
		{"again and again", retryRounds},
		{"the requester is noted", retryAudit},
		{"it wakes listeners", retryWakes},
		{"a crash loses and doubles nothing", retryCrash},
		{"with another payload", retryWithPayload},
		{"another payload is refused as a whole", retryPayloadRefused},
	}
}

// retriable are the states out of which a task is retried.
func retriable() []task.State {
	return []task.State{task.StateFailed, task.StateCancelled, task.StateRolledBack}
}

// wasted is a row that has ended in that state, at its second attempt, after it has said and left all that it can.
func (r *opsRig) wasted(key string, s task.State) task.ID {
	r.t.Helper()
	q := full(r.now())
	q.Key, q.RollbackPayload, q.Region, q.Type = key, raw(`{"was":"az1"}`), "", kind
	id := r.Insert(r.t, q)[0]
	w := wantOf(kind, task.Run, 1)
	w.Deadline = 30 * time.Hour
	row := r.claim(w)[0]
	end := retry(row, 0)
	end.Next.Deferrals, end.Report = 3, reported(`0.4`, "page 4", `{"page":4}`)
	r.settled(end)
	through, last := s, s
	if s == task.StateRolledBack {
		through = task.StateRollbackPending
	}
	end = ended(r.claim(w)[0], verdictFor(through), through)
	end.Outcome.Result, end.Outcome.Output = raw(`{"page":4}`), "some output"
	r.settled(end)
	if through != last {
		r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, last))
	}
	return id
}

// ownError is the error of the last attempt of a finished task. Of one that was rolled back, users see that of its run instead.
func ownError(i *store.TaskInfo) string {
	if i.State == task.StateRolledBack {
		return i.History[len(i.History)-1].Error
	}
	return i.Error
}

func retryWrites(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, again := range r.retries() {
		for _, s := range retriable() {
			id := r.wasted(way+string(s), s)
			r.Advance(t, time.Hour)
			r.present()
			before := r.get(id)
			require.Equal(t, s, before.State)
			r.did(became(task.StatePending), again, id, "alice")
			got := r.get(id)
			sameDeclared(t, before, got)
			near(t, r.now(), got.RunAt)
			sameOr(t, before.RollbackPayload, got.RollbackPayload, way)
			sameOr(t, raw(`{"page":4}`), got.Checkpoint, way)
			require.Equal(t, before.History, got.History, way)
			require.Equal(t, before.Outcome, got.Outcome, way)
			require.Equal(t, ownError(before), got.Error, way)
			plain := &store.TaskInfo{
				ID: id, Type: kind, State: task.StatePending, Priority: before.Priority, Key: before.Key, Fence: before.Fence + 1,
				Labels: got.Labels, Payload: got.Payload, Error: ownError(before), Outcome: before.Outcome, MaxAttempts: before.MaxAttempts,
				EverStarted: s != task.StateRolledBack, Session: got.Session, Agent: got.Agent, CreatedBy: before.CreatedBy,
				Traceparent: before.Traceparent, CreatedAt: got.CreatedAt, RunAt: got.RunAt, Checkpoint: got.Checkpoint,
				Round: 1, RollbackPayload: got.RollbackPayload, History: got.History,
			}
			require.Equal(t, plain, got, "%s: no deadline, no result, no budget spent, nothing that was said", way)
			require.Len(t, r.list(store.TaskFilter{Key: way + string(s)}), 1, "it is there once")
			r.settled(finish(r.claimOne(kind, task.Run)))
			require.Equal(t, task.StateSucceeded, r.state(id))
		}
	}
}

func retryNothing(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, again := range r.retries() {
		for _, everStarted := range []bool{false, true} {
			for _, s := range plainStates() {
				if s == task.StateFailed || s == task.StateCancelled || s == task.StateRolledBack {
					continue
				}
				q := store.EnqueueRequest{Type: kind}
				id := r.rowIn(q, s, everStarted)
				r.idle(id, func() { r.did(became(s), again, id, "alice") })
				if s.Running() {
					r.letGo(id)
				}
			}
		}
		require.Empty(t, r.claim(wantOf(kind, task.Run, 9)), way)
	}
}

// letGo ends a row that is held, for good.
func (r *opsRig) letGo(id task.ID) {
	r.t.Helper()
	info := r.get(id)
	row := task.Task{ID: id, State: info.State, Fence: info.Fence, Attempt: info.Attempt}
	e := finish(row)
	if info.State.Phase() == task.Rollback {
		e.Next.State = task.StateRolledBack
	}
	r.settled(e)
}

func retryAbsent(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.absent(r.h.Retry, r.sql.Retry)
}

// absent asserts that an operation on a task that is not there fails by Go and by SQL, and leaves nothing in the audit.
func (r *opsRig) absent(inGo, inSQL operation) {
	r.t.Helper()
	for _, id := range []task.ID{999_999_999, 0, -1} {
		r.audited(func() {
			_, err := inGo(r.ctx, id, "alice")
			require.ErrorIs(r.t, err, store.ErrNoTask)
			_, err = inSQL(r.ctx, id, "alice")
			require.ErrorContains(r.t, err, "there is no task")
		})
	}
}

func retryPrevious(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, s := range retriable() {
		id := r.wasted(string(s), s)
		before := r.get(id)
		r.did(became(task.StatePending), r.h.Retry, id, "")
		row := r.claimOne(kind, task.Run)
		require.Equal(t, id, row.ID)
		require.Equal(t, 1, row.Attempt)
		require.Equal(t, 1, row.Round)
		require.Zero(t, row.Deferrals)
		require.Equal(t, before.Fence+2, row.Fence)
		require.Equal(t, &task.Previous{Outcome: before.Outcome, Error: ownError(before)}, row.Previous)
		require.Nil(t, row.Result)
		require.Empty(t, row.Cause)
		sameOr(t, raw(`{"page":4}`), row.Checkpoint, string(s))
		again, err := r.Claimed(r.ctx, r.session, r.claims)
		require.NoError(t, err)
		require.Equal(t, 1, again[0].Round)
		r.settled(finish(row))
		require.Equal(t, 1, r.get(id).Round, "it is kept to the end")
	}
}

func retryHistory(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, again := range r.retries() {
		for _, s := range []task.State{task.StateFailed, task.StateCancelled} {
			row := r.held()
			end := ended(row, verdictFor(s), s)
			end.Outcome.Result, end.Outcome.Output = raw(`{"page":4}`), "some output"
			r.settled(end)
			finished := r.get(row.ID)
			require.Len(t, finished.History, 1, way)
			r.did(became(task.StatePending), again, row.ID, "alice")
			got := r.get(row.ID)
			require.Len(t, got.History, 1, way)
			a := got.History[0]
			require.Equal(t, row.Fence, a.Fence, way)
			require.Equal(t, r.session, a.Session, way)
			require.Equal(t, task.Run, a.Phase, way)
			require.Equal(t, 1, a.Attempt, way)
			require.Equal(t, verdictFor(s), a.Outcome, way)
			require.Equal(t, finished.Error, a.Error, way)
			require.Equal(t, "some output", a.Output, way)
			require.Equal(t, s, a.State, way)
			sameOr(t, raw(`{"page":4}`), a.Result, way)
			require.NotNil(t, a.StartedAt, way)
			near(t, r.now().Add(-time.Minute), *a.StartedAt)
			require.WithinDuration(t, *finished.FinishedAt, a.EndedAt, time.Millisecond, way)
			r.settled(finish(r.claimOne(kind, task.Run)))
			require.Len(t, r.get(row.ID).History, 1, "the next is a first attempt, which only the archive has")
		}
	}
}

func retryHistoryOnce(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, s := range retriable() {
		id := r.wasted(string(s), s)
		before := r.get(id).History
		require.NotEmpty(t, before)
		r.did(became(task.StatePending), r.h.Retry, id, "")
		require.Equal(t, before, r.get(id).History)
		r.settled(finish(r.claimOne(kind, task.Run)))
	}
}

func retryHistoryNone(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	fresh := r.insertFar()
	require.Equal(t, store.Became("cancelled"), r.cancel(fresh, ""))
	r.did(became(task.StatePending), r.h.Retry, fresh, "")
	require.Empty(t, r.get(fresh).History)
	require.False(t, r.get(fresh).EverStarted)

	r.Insert(t, store.EnqueueRequest{Type: oneWayKind})
	row := r.claimOne(oneWayKind, task.Run)
	r.settled(retry(row, time.Hour))
	require.Equal(t, store.Became("cancelled"), r.cancel(row.ID, ""))
	r.did(became(task.StatePending), r.h.Retry, row.ID, "")
	require.Len(t, r.get(row.ID).History, 1, "that of the attempt that there was")
}

func retrySettled(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, s := range []task.State{task.StateFailed, task.StateCancelled} {
		row := r.held()
		end := ended(row, verdictFor(s), s)
		r.settled(end)
		r.did(became(task.StatePending), r.h.Retry, row.ID, "")
		r.unchanged(row.ID, func() { require.Equal(t, same(store.Ended, 1), r.settle(end), "a repeat") })
		next := r.claimOne(kind, task.Run)
		r.unchanged(row.ID, func() { require.Equal(t, same(store.Ended, 1), r.settle(end), "while the next runs") })
		r.settled(finish(next))
		r.unchanged(row.ID, func() {
			require.Equal(t, same(store.Ended, 1), r.settle(end))
			end.Fence += 50
			require.Equal(t, same(store.Lost, 1), r.settle(end))
		})
	}
}

func retryEverStarted(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, s := range []task.State{task.StateFailed, task.StateCancelled} {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, s, true)
		r.did(became(task.StatePending), r.h.Retry, id, "")
		require.Equal(t, store.Became("rollback_pending"), r.cancel(id, ""), "it was started once, and is rolled back")
		r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
		id = r.rowIn(store.EnqueueRequest{Type: kind}, s, false)
		r.did(became(task.StatePending), r.h.Retry, id, "")
		require.False(t, r.get(id).EverStarted)
		require.Equal(t, store.Became("cancelled"), r.cancel(id, ""), "it never was")
	}
}

func retryNeverStarted(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateRolledBack, true)
	require.True(t, r.get(id).EverStarted)
	r.did(became(task.StatePending), r.h.Retry, id, "")
	require.False(t, r.get(id).EverStarted)
	require.Equal(t, store.Became("cancelled"), r.cancel(id, ""))
	r.did(became(task.StatePending), r.h.Retry, id, "")
	require.Equal(t, 2, r.get(id).Round)
	r.settled(ended(r.claimOne(kind, task.Run), task.Failed, task.StateRollbackPending))
	require.Equal(t, task.Failed, r.get(id).Cause, "of this round")
}

func retryDeadline(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.insert(1)
	w := wantOf(kind, task.Run, 1)
	w.Deadline = time.Hour
	row := r.claim(w)[0]
	require.False(t, row.Deadline.IsZero())
	r.settled(ended(row, task.Failed, task.StateFailed))
	r.Advance(t, 5*time.Hour)
	r.present()
	r.did(became(task.StatePending), r.h.Retry, row.ID, "")
	require.Nil(t, r.get(row.ID).Deadline)
	next := r.claim(w)
	require.Len(t, next, 1)
	near(t, r.now().Add(time.Hour), next[0].Deadline)
}

func retryKey(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, again := range r.retries() {
		for _, s := range retriable() {
			q := store.EnqueueRequest{Type: kind, Key: "invoice-7"}
			id := r.rowIn(q, s, true)
			other := r.Insert(t, store.EnqueueRequest{Type: oneWayKind, Key: "invoice-7"})[0]
			q.In = farOff
			live := r.Insert(t, q)[0]
			r.idle(live, func() {
				r.idle(id, func() {
					_, err := again(r.ctx, id, "alice")
					refusal(t, way, err, "task "+number(live)+" is live with the key", "invoice-7", "wait for it or cancel it")
				})
			})
			require.Equal(t, store.Became("cancelled"), r.cancel(live, ""))
			r.did(became(task.StatePending), again, id, "alice")
			r.settled(finish(r.claimOne(kind, task.Run)))
			require.Equal(t, store.Became("cancelled"), r.cancel(other, ""), "a key is of one type")
		}
	}
}

func retryKeyTaken(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	q := store.EnqueueRequest{Type: kind, Key: "invoice-7"}
	id := r.rowIn(q, task.StateFailed, true)
	r.did(became(task.StatePending), r.h.Retry, id, "")
	require.Equal(t, id, r.enqueue(q, false))
	require.NotEmpty(t, expect(t, func(t testing.TB) { r.Insert(t, q) }))
	r.settled(finish(r.claimOne(kind, task.Run)))
	require.NotEqual(t, id, r.enqueue(q, true))
}

func retryRounds(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
	fence := r.get(id).Fence
	for round := 1; round <= 4; round++ {
		r.did(became(task.StatePending), r.h.Retry, id, "alice")
		r.idle(id, func() { r.did(became(task.StatePending), r.sql.Retry, id, "bob") })
		got := r.get(id)
		require.Equal(t, round, got.Round)
		require.Greater(t, got.Fence, fence)
		require.Len(t, got.History, round)
		row := r.claimOne(kind, task.Run)
		require.Equal(t, round, row.Round)
		require.Greater(t, row.Fence, got.Fence)
		r.idle(id, func() { r.did(became(task.StateRunning), r.h.Retry, id, "bob") })
		r.settled(ended(row, task.Failed, task.StateFailed))
		fence = r.get(id).Fence
	}
}

func retryAudit(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents, operators := h.Roles(t)
	role := map[string]string{"Go": agents, "SQL": operators}
	for way, again := range r.retries() {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
		r.audited(func() { r.did(became(task.StatePending), again, id, "alice, by "+way) },
			Audited{Who: "alice, by " + way, Verb: "retry", Task: id, Answer: "pending"})
		require.Equal(t, role[way], h.Audit(t)[len(h.Audit(t))-1].Role, "whatever the caller says, by %s", way)
		r.settled(ended(r.claimOne(kind, task.Run), task.Failed, task.StateFailed))
		r.audited(func() { r.did(became(task.StatePending), again, id, "") },
			Audited{Verb: "retry", Task: id, Answer: "pending"})
		r.settled(finish(r.claimOne(kind, task.Run)))
	}
}
