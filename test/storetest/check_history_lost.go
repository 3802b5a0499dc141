package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// lost is the settlement of a reaped row whose task becomes next.
func lost(row store.Reaped, next task.State) store.Settlement {
	end := ended(row.Task, task.Lost, next)
	end.RanFence, end.Started, end.Outcome.Error = row.RanFence, -1, "its agent is gone"
	return end
}

// lostNext are the states that a lost attempt may leave its task in.
func lostNext() []task.State {
	return []task.State{task.StateRetryPending, task.StateRollbackPending, task.StateFailed, task.StateCancelled}
}

// historyLost: the history and the task name the session that an attempt ran in, and not the one that reaped it, which finds its
// settlement done all the same.
func historyLost(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	for _, next := range lostNext() {
		r.session = r.join("first")
		row := r.held()
		r.Advance(t, time.Minute)
		o.present()
		require.NoError(t, r.Leave(r.ctx, r.session))
		reaped := o.sweep(10)
		require.Len(t, reaped, 1)
		require.Equal(t, r.session, reaped[0].RanSession)
		require.Equal(t, "first", reaped[0].RanAgent)
		require.Equal(t, o.session, r.get(row.ID).Session, "who reaps a row holds it")
		end := lost(reaped[0], next)
		o.settled(end)
		got := r.lostBy(reaped[0], o)
		require.Equal(t, next, got.State)
		require.Equal(t, same(store.Ended, 1), o.settle(end), "%s: the session that settled it is known", next)
		require.Equal(t, same(store.Lost, 1), r.settle(end), "%s: the one that lost it is not that", next)
		if !next.Finished() {
			o.goesOn(got)
		}
	}
}

// goesOn claims a task whose only attempt another session has lost, releases it, and ends it, and asserts whom the task names meanwhile.
func (r *rig) goesOn(i *store.TaskInfo) {
	r.t.Helper()
	w, done := want(kind, 1), task.StateSucceeded
	if w.Phase = i.State.Phase(); w.Phase == task.Rollback {
		done = task.StateRolledBack
	}
	unstarted := release(r.claim(w)[0])
	require.Equal(r.t, r.session, r.get(i.ID).Session, "%s: another has claimed it", i.State)
	unstarted.Next.State = i.State
	r.settled(unstarted)
	require.Equal(r.t, r.session, r.get(i.ID).Session, "%s: which was the last to hold it", i.State)
	r.settled(ended(r.claim(w)[0], task.Succeeded, done))
	history := r.get(i.ID).History
	require.Equal(r.t, i.History[0], history[0], "%s: what comes after changes nothing of it", i.State)
	last := history[len(history)-1]
	require.Equal(r.t, r.session, last.Session, i.State)
	require.Equal(r.t, r.name, last.Agent, i.State)
	require.Zero(r.t, last.ReapedSession, i.State)
	require.Empty(r.t, last.ReapedBy, i.State)
}

// lostBy asserts that a task and its history say of the only attempt, of row, that r's session lost it and another settled it.
func (r *rig) lostBy(row store.Reaped, reaper *rig) *store.TaskInfo {
	r.t.Helper()
	got := r.get(row.ID)
	require.Equal(r.t, r.session, got.Session, got.State)
	require.Equal(r.t, r.name, got.Agent, got.State)
	list, err := r.List(r.ctx, store.TaskFilter{Type: row.Type})
	require.NoError(r.t, err)
	require.Equal(r.t, row.ID, list[0].ID)
	require.Equal(r.t, r.session, list[0].Session, got.State)
	require.Equal(r.t, r.name, list[0].Agent, got.State)
	require.Len(r.t, got.History, 1)
	a := got.History[0]
	require.Equal(r.t, row.RanFence, a.Fence)
	require.Equal(r.t, r.session, a.Session, got.State)
	require.Equal(r.t, r.name, a.Agent, got.State)
	require.Equal(r.t, reaper.session, a.ReapedSession, got.State)
	require.Equal(r.t, reaper.name, a.ReapedBy, got.State)
	require.NotNil(r.t, a.StartedAt, got.State)
	require.WithinDuration(r.t, row.ClaimedAt, *a.StartedAt, time.Millisecond, got.State)
	require.Greater(r.t, a.EndedAt.Sub(*a.StartedAt), time.Minute-time.Second, got.State)
	return got
}

// historyLostTwice: also where a reaper has died before it had settled the row.
func historyLostTwice(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.Advance(t, time.Minute)
	o, third := r.other("second"), r.other("third")
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Len(t, o.sweep(10), 1)
	require.NoError(t, o.Leave(o.ctx, o.session))
	reaped := third.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, r.session, reaped[0].RanSession)
	require.Equal(t, "first", reaped[0].RanAgent)
	third.settled(lost(reaped[0], task.StateRetryPending))
	a := r.get(row.ID).History[0]
	require.Equal(t, r.session, a.Session)
	require.Equal(t, "first", a.Agent)
	require.Equal(t, third.session, a.ReapedSession)
	require.Equal(t, "third", a.ReapedBy)
	require.NotNil(t, a.StartedAt)
	require.WithinDuration(t, reaped[0].ClaimedAt, *a.StartedAt, time.Millisecond)
}

// historyReapedOwn: a session may reap a row of its own, and then no other has settled the attempt.
func historyReapedOwn(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.claimLate()
	reaped := r.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, r.session, reaped[0].RanSession)
	r.settled(lost(reaped[0], task.StateRetryPending))
	got := r.get(row.ID)
	require.Equal(t, r.session, got.Session)
	a := got.History[0]
	require.Equal(t, r.session, a.Session)
	require.Equal(t, "first", a.Agent)
	require.Zero(t, a.ReapedSession)
	require.Empty(t, a.ReapedBy)
	require.NotNil(t, a.StartedAt)
	require.WithinDuration(t, reaped[0].ClaimedAt, *a.StartedAt, time.Millisecond)
}
