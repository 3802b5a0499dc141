package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func historyChecks() []Check {
	return []Check{
		{"a success at the first try leaves none", historyFirst},
		{"what an attempt leaves", historyRow},
		{"each attempt, oldest first", historyAll},
		{"nothing of the silent", historySilent},
		{"nothing of what was not applied", historyRefused},
		{"the fence that the task saw", historyRan},
		{"the agent that lost it", historyLost},
		{"the agent that lost it, whose reaper died", historyLostTwice},
		{"an attempt that its own session reaps", historyReapedOwn},
		{"reviving the task loses nothing", historyRevived},
		{"reviving a task that was reaped loses nothing", historyRevivedReaped},
	}
}

func historyFirst(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(finish(row))
	require.Empty(t, r.get(row.ID).History, "the archive says it all")
	require.Equal(t, task.Succeeded, r.get(row.ID).Outcome)
	for _, s := range []task.State{task.StateFailed, task.StateCancelled} {
		row := r.held()
		r.settled(ended(row, verdictFor(s), s))
		require.Len(t, r.get(row.ID).History, 1, s)
	}
}

func historyRow(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	end := retry(row, time.Hour)
	end.Started = 3 * time.Minute
	end.Outcome.Output, end.Outcome.Result = "some output", json.RawMessage(`{"page":4}`)
	r.settled(end)
	got := r.get(row.ID).History
	require.Len(t, got, 1)
	now := r.now()
	near(t, now, got[0].EndedAt)
	require.NotNil(t, got[0].StartedAt)
	require.WithinDuration(t, got[0].EndedAt.Add(-3*time.Minute), *got[0].StartedAt, time.Millisecond)
	require.Equal(t, row.Fence, got[0].Fence)
	require.Equal(t, r.session, got[0].Session)
	require.Equal(t, task.Run, got[0].Phase)
	require.Equal(t, 1, got[0].Attempt)
	require.Equal(t, task.Failed, got[0].Outcome)
	require.Equal(t, "it broke", got[0].Error)
	require.Equal(t, "some output", got[0].Output)
	require.Equal(t, task.StateRetryPending, got[0].State)
	require.JSONEq(t, `{"page":4}`, string(got[0].Result))
}

func historyAll(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	id := row.ID
	r.settled(retry(row, 0))
	row = o.claim(want(kind, 1))[0]
	rollBack := retry(row, 0)
	rollBack.Next = task.Transition{State: task.StateRollbackPending, EverStarted: true}
	rollBack.Outcome = task.Outcome{Verdict: task.TimedOut}
	rollBack.Started = -1
	o.settled(rollBack)
	back := want(kind, 1)
	back.Phase = task.Rollback
	row = r.claim(back)[0]
	r.settled(store.Settlement{
		ID: row.ID, Fence: row.Fence, RanFence: row.Fence, Phase: task.Rollback, Attempt: 1,
		Next:    task.Transition{State: task.StateRollbackPending, Attempt: 1, EverStarted: true},
		Outcome: task.Outcome{Verdict: task.Failed},
	})
	row = r.claim(back)[0]
	require.Equal(t, 2, row.Attempt)
	done := finish(row)
	done.Next.State = task.StateRolledBack
	r.settled(done)

	type line struct {
		fence   task.Fence
		session task.Session
		phase   task.Phase
		attempt int
		outcome task.Verdict
		state   task.State
	}
	var got []line
	for _, a := range r.get(id).History {
		got = append(got, line{a.Fence, a.Session, a.Phase, a.Attempt, a.Outcome, a.State})
	}
	require.Equal(t, []line{
		{1, r.session, task.Run, 1, task.Failed, task.StateRetryPending},
		{3, o.session, task.Run, 2, task.TimedOut, task.StateRollbackPending},
		{5, r.session, task.Rollback, 1, task.Failed, task.StateRollbackPending},
		{7, r.session, task.Rollback, 2, task.Succeeded, task.StateRolledBack},
	}, got)
	require.Nil(t, r.get(id).History[1].StartedAt, "it never started")
}

func historySilent(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(release(row))
	require.Empty(t, r.get(row.ID).History)
	row = r.claim(want(kind, 1))[0]
	r.settled(retry(row, 0))
	before := r.get(row.ID)
	require.NotEmpty(t, before.Outcome)
	r.settled(release(r.claim(want(kind, 1))[0]))
	after := r.get(row.ID)
	require.Equal(t, before.Outcome, after.Outcome, "the row still has the attempt before")
	require.Equal(t, before.Error, after.Error)
	require.Equal(t, before.History, after.History)
	row = r.claim(want(kind, 1))[0]
	loud := release(row)
	loud.Silent = false
	r.settled(loud)
	require.Len(t, r.get(row.ID).History, 2)
}

func historyRefused(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	stale := retry(row, 0)
	stale.Fence++
	require.Equal(t, same(store.Lost, 1), r.settle(stale))
	require.Equal(t, same(store.Lost, 1), o.settle(retry(row, 0)))
	require.Empty(t, r.get(row.ID).History)
	r.settled(retry(row, 0))
	require.Equal(t, same(store.Ended, 1), r.settle(retry(row, 0)))
	require.Len(t, r.get(row.ID).History, 1)
}

func historyRan(t testing.TB, h Harness) {
	r, o, row := reapedRow(t, h)
	end := retry(row.Task, 0)
	end.RanFence = row.RanFence
	end.Next.State = task.StateFailed
	end.Attempt = 2 // so that the history has it, finished or not
	o.settled(end)
	got := r.get(row.ID)
	require.Equal(t, row.Fence+1, got.Fence)
	require.Len(t, got.History, 1)
	require.Equal(t, row.RanFence, got.History[0].Fence)
	require.Equal(t, task.StateFailed, got.History[0].State)
}
