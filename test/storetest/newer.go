package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// OnNewerSchema makes the calls of agents, operators and applications on a store, has upgrade change its schema as an
// additive migration of a later version does, while the store stays open, and makes them again. A first round prepares what
// connections keep (statements, plans of functions), and a second one uses it, before as after. h needs a store with nothing
// in it.
func OnNewerSchema(t testing.TB, h Harness, upgrade func()) {
	t.Helper()
	r := newOpsRig(t, h)
	o := r.twin()
	for part := range 2 {
		for range 2 {
			r.attempts(o)
			r.deaths(o)
			r.operators()
			r.batches()
			r.leases()
			r.looks()
		}
		if part == 0 {
			upgrade()
		}
	}
}

// attempts runs tasks to every kind of end.
func (r *opsRig) attempts(o *opsRig) {
	r.t.Helper()
	r.insert(6)
	r.EnqueueSQL(r.t, store.EnqueueRequest{Type: kind, Key: "by SQL"})
	for try := range 2 {
		_, answer, err := r.h.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Key: "by Go"})
		require.NoError(r.t, err)
		require.Equal(r.t, try == 0, answer == store.EnqueuedInserted)
	}
	wanted := wantOf(kind, task.Run, 100)
	_, due, err := r.NextDue(r.ctx, store.Claim{Session: r.session, Wants: []store.Want{wanted}})
	require.NoError(r.t, err)
	require.True(r.t, due)
	rows := r.claim(wanted)
	require.Len(r.t, rows, 8)
	claimed, err := r.Claimed(r.ctx, r.session, r.claims)
	require.NoError(r.t, err)
	require.Len(r.t, claimed, 8)
	require.Len(r.t, r.present().Held, 8)

	noted := store.Renewal{ID: rows[0].ID, Fence: rows[0].Fence, Window: window, Report: store.Report{Progress: raw(`0.5`)}}
	require.Equal(r.t, store.Applied, r.renewOne(noted))
	require.Equal(r.t, store.Applied, r.renewOne(store.Renewal{ID: rows[1].ID, Fence: rows[1].Fence, Window: window}))
	r.counted(rows[1], store.Ping{Progress: raw(`0.4`), Checkpoint: raw(`{"page":4}`)})
	_, err = r.pingSQL(rows[1].ID, rows[1].Fence, store.Ping{Message: "halfway"})
	require.NoError(r.t, err)
	require.NoError(r.t, r.holdSQL(rows[2].ID, rows[2].Fence))
	require.NoError(r.t, r.completeSQL(rows[2].ID, rows[2].Fence, `{"by":"SQL"}`))
	require.Equal(r.t, store.Applied, r.complete(rows[3].ID, rows[3].Fence, `{"by":"Go"}`))
	require.Equal(r.t, store.Cancelling, r.cancel(rows[4].ID, "alice"))
	cancels, err := r.Cancels(r.ctx, r.session)
	require.NoError(r.t, err)
	require.Len(r.t, cancels, 1)
	r.settled(retry(rows[1], 0), ended(rows[4], task.Cancelled, task.StateCancelled), release(rows[5]),
		ended(rows[6], task.Failed, task.StateFailed))
	r.settled(finish(rows[0]), finish(rows[7])) // done at their first try: another statement
	for _, row := range r.claim(wanted) {
		if row.ID == rows[5].ID {
			r.settled(finish(row))
			continue
		}
		r.detach(row)
		reaped, answer := o.adopt(row.ID, row.Fence)
		require.Equal(r.t, store.Applied, answer)
		o.settled(finish(reaped.Task))
	}
	require.Equal(r.t, task.StateSucceeded, r.state(rows[5].ID))
	require.Len(r.t, r.get(rows[1].ID).History, 2)
}

// deaths has another agent sweep the rows of one that leaves.
func (r *opsRig) deaths(o *opsRig) {
	r.t.Helper()
	r.insert(2)
	o.declare(oneWayKind, oneWayPolicy())
	o.session = o.join("second")
	require.Len(r.t, o.claim(wantOf(kind, task.Run, 2)), 2)
	require.NoError(r.t, o.Leave(r.ctx, o.session))
	reaped := r.sweep(10)
	require.Len(r.t, reaped, 2)
	for _, row := range reaped {
		end := retry(row.Task, 0)
		end.RanFence, end.Started, end.Outcome = row.RanFence, -1, task.Outcome{Verdict: task.Lost, Error: "its agent is gone"}
		r.settled(end)
	}
	require.Len(r.t, r.runAll(task.StateSucceeded), 2)
	o.session = o.join("second")
}

// operators changes single tasks, by Go and by SQL.
func (r *opsRig) operators() {
	r.t.Helper()
	q := store.EnqueueRequest{Type: kind}
	require.Equal(r.t, became(task.StateCancelled), r.cancel(r.rowIn(q, task.StatePending, false), "alice"))
	_, err := r.cancelSQL(r.rowIn(q, task.StateRetryPending, true), "alice")
	require.NoError(r.t, err)
	r.rollBackAll()
	for _, again := range r.retries() {
		r.did(became(task.StatePending), again, r.rowIn(q, task.StateFailed, true), "alice")
		require.Len(r.t, r.runAll(task.StateSucceeded), 1)
	}
	for _, rollBack := range r.rollbacks() {
		r.did(became(task.StateRollbackPending), rollBack, r.rowIn(q, task.StateSucceeded, true), "alice")
		r.did(became(task.StateRollbackPending), rollBack, r.rowIn(q, task.StateRetryPending, true), "alice")
		r.rollBackAll()
		r.insert(1)
		row := r.claimOne(kind, task.Run)
		r.did(store.Cancelling, rollBack, row.ID, "alice")
		r.settled(finish(row))
		require.Equal(r.t, 1, r.steps())
		r.rollBackAll()
		require.Equal(r.t, task.StateRolledBack, r.state(row.ID))
	}
}

// batches takes batches through steps and folds.
func (r *opsRig) batches() {
	r.t.Helper()
	id, _ := r.everyEnd(store.BatchRequest{})
	r.wants("retry", id, "retrying")
	require.Equal(r.t, 2, r.steps())
	require.Len(r.t, r.runAll(task.StateSucceeded), 2)
	r.over()
	r.wants("rollback", id, "rolling_back")
	require.Positive(r.t, r.steps())
	r.rollBackAll()
	r.over()
	r.inState(id, store.BatchRollbackFailed)

	cancelled, _ := r.batchOf(3, store.BatchRequest{FinishType: "suite.end"})
	row := r.claim(wantOf(kind, task.Run, 1))[0]
	r.wants("cancel", cancelled, "cancelling")
	require.Equal(r.t, 3, r.steps())
	r.settled(ended(row, task.Cancelled, task.StateCancelled))
	r.over()
	r.inState(cancelled, store.BatchCancelled)
	r.settled(finish(r.claimOne("suite.end", task.Run)))

	byGo, err := r.h.CreateBatch(r.ctx, store.BatchRequest{Open: true, OnFailure: store.OnFailureRollback},
		rowsThen(nil, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind}), nil)
	require.NoError(r.t, err)
	require.NoError(r.t, r.add(byGo, store.EnqueueRequest{Type: kind, In: farOff}))
	_, err = r.h.SealBatch(r.ctx, byGo)
	require.NoError(r.t, err)
	r.runAll(task.StateSucceeded, task.StateFailed)
	require.Equal(r.t, 1, r.fold().Acted)
	r.over()
	r.rollBackAll()
	r.over()
	r.inState(byGo, store.BatchRolledBack)
}

// leases takes a named lease through its life.
func (r *opsRig) leases() {
	r.t.Helper()
	n := &named{r.liveRig}
	f := n.taken("upgrade", "first")
	require.Zero(r.t, n.ask("upgrade", "second"))
	require.NoError(r.t, n.renew("upgrade", f))
	require.NoError(r.t, n.holdOnce("upgrade", f))
	n.lost("upgrade", f+1)
	require.NoError(r.t, n.release("upgrade", f))
	require.Empty(r.t, r.NamedLeases(r.t))
}

// looks reads what there is.
func (r *opsRig) looks() {
	r.t.Helper()
	require.NoError(r.t, r.h.Ping(r.ctx))
	require.NotEmpty(r.t, r.list(store.TaskFilter{Type: kind, States: []task.State{task.StateFailed, task.StateSucceeded}}))
	_, err := r.h.Stats(r.ctx)
	require.NoError(r.t, err)
	takers, err := r.h.Takers(r.ctx, kind)
	require.NoError(r.t, err)
	require.Positive(r.t, takers.OfType)
	all, err := r.h.ListBatches(r.ctx, store.BatchFilter{})
	require.NoError(r.t, err)
	require.NotEmpty(r.t, all)
	require.NoError(r.t, r.h.BatchFailures(r.ctx, all[0].ID, func(task.ID, string) {}))
	policies, err := r.Policies(r.ctx, []task.PolicyHash{beating().Hash("a")})
	require.NoError(r.t, err)
	require.Len(r.t, policies, 1)
	_, err = r.Secret(r.ctx)
	require.NoError(r.t, err)
	require.Zero(r.t, r.maintain(7*day))
}
