package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func sweepChecks() []Check {
	return []Check{
		{"nothing of the living", sweepLiving},
		{"dead by its lease", sweepLease},
		{"dead by its session's silence", sweepPresence},
		{"dead by its session's leaving", sweepLeft},
		{"dead for weeks", sweepLong},
		{"what a sweep returns and writes", sweepWrites},
		{"a rollback that was lost", sweepRollback},
		{"no more than the limit", sweepLimit},
		{"a reaped row is left to its reaper", sweepReaped},
		{"a reaped row whose reaper has died", sweepReapDead},
		{"a reaped row whose reaper is late", sweepReapLate},
		{"a reaper's own dead rows", sweepOwn},
		{"a reaper that is absent", sweepAbsent},
		{"after the clock was set back", sweepClockBack},
		{"a clock that has moved unseen", sweepClockMoved},
		{"rows of one whose presence is longer than the calm", sweepCalm},
		{"rows of one that was not seen silent", sweepDoubtful},
		{"sessions that are listed", sweepSessions},
		{"a deadline that passed long ago", sweepAncient},
		{"a reaped row is settled", sweepSettled},
	}
}

func sweepLiving(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(4)
	rows := r.claim(want(kind, 3))
	r.settled(finish(rows[0]), retry(rows[1], 0))
	r.Advance(t, presence-time.Minute)
	require.Empty(t, o.sweep(10))
	r.present()
	r.Advance(t, presence-time.Minute)
	o.present()
	require.Empty(t, o.sweep(10), "its session was there again")
	require.Equal(t, task.StateRunning, r.state(rows[2].ID))
}

func sweepLease(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.claimLate()
	reaped := r.other("second").sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, row.ID, reaped[0].ID)
	require.True(t, reaped[0].Present)
}

func sweepPresence(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.Advance(t, presence+time.Minute)
	reaped := r.other("second").sweep(10)
	require.Len(t, reaped, 1, "its lease is open, and its session silent")
	require.Equal(t, row.ID, reaped[0].ID)
	require.False(t, reaped[0].Present)
}

func sweepLeft(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	require.Empty(t, o.sweep(10))
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, row.ID, reaped[0].ID)
	require.False(t, reaped[0].Present)
}

func sweepLong(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(1)
	w := want(kind, 1)
	w.Window = 30 * 24 * time.Hour
	row := r.claim(w)[0]
	r.Advance(t, 8*24*time.Hour)
	_, err := r.Maintain(r.ctx, 24*time.Hour)
	require.NoError(t, err)
	require.Equal(t, r.name, r.get(row.ID).Agent, "who holds something is not forgotten")
	reaped := r.other("second").sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, row.ID, reaped[0].ID)
	require.False(t, reaped[0].Present)
}

func sweepWrites(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	r.insert(1)
	w := want(kind, 1)
	w.Deadline = time.Hour
	r.settled(retry(r.claim(w)[0], 0))
	row := r.claim(w)[0]
	r.Advance(t, later)
	before := r.get(row.ID)
	o.present()
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	got := reaped[0]
	require.Equal(t, row.Fence, got.RanFence)
	require.Equal(t, row.Fence+1, got.Fence)
	require.Equal(t, task.StateRunning, got.State)
	require.Equal(t, kind, got.Type)
	require.Equal(t, row.Attempt, got.Attempt)
	require.True(t, got.EverStarted)
	require.Equal(t, row.Policy, got.Policy)
	require.Nil(t, got.Payload, "reaping needs no documents")
	require.Equal(t, row.Previous, got.Previous)
	require.WithinDuration(t, *before.ClaimedAt, got.ClaimedAt, time.Millisecond)
	require.WithinDuration(t, *before.Deadline, got.Deadline, time.Millisecond)
	require.InDelta(t, time.Hour-later, got.Left, float64(slack))
	near(t, r.now().Add(reapFor), got.LeaseEnd)

	after := r.get(row.ID)
	require.Equal(t, o.session, after.Session)
	require.Equal(t, got.Fence, after.Fence)
	require.WithinDuration(t, got.LeaseEnd, *after.LeaseEnd, time.Millisecond)
	before.Session, before.Agent, before.Fence, before.LeaseEnd = after.Session, "second", after.Fence, after.LeaseEnd
	require.Equal(t, before, after, "and nothing else")

	r.Advance(t, time.Hour)
	o.present()
	reaped = o.sweep(10)
	require.Len(t, reaped, 1)
	require.InDelta(t, -later, reaped[0].Left, float64(slack), "past its deadline")
}

func sweepRollback(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	rollBack := retry(row, 0)
	rollBack.Next = task.Transition{State: task.StateRollbackPending, EverStarted: true}
	r.settled(rollBack)
	w := want(kind, 1)
	w.Phase = task.Rollback
	require.Len(t, r.claim(w), 1)
	r.Advance(t, later)
	reaped := r.other("second").sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, task.StateRollbackRunning, reaped[0].State)
	require.Equal(t, task.Rollback, reaped[0].Phase())
}

func sweepLimit(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	all := r.insert(7)
	r.claim(want(kind, 7))
	require.NoError(t, r.Leave(r.ctx, r.session))
	var got []task.ID
	for _, n := range []int{3, 3, 1} {
		reaped := o.sweep(3)
		require.Len(t, reaped, n)
		for _, w := range reaped {
			got = append(got, w.ID)
		}
	}
	require.ElementsMatch(t, all, got)
	require.Empty(t, o.sweep(3))
}

// reapedRow is a row that a second agent has reaped from a first that left.
func reapedRow(t testing.TB, h Harness) (first, second *rig, row store.Reaped) {
	t.Helper()
	first = newRig(t, h)
	second = first.other("second")
	first.held()
	require.NoError(t, first.Leave(first.ctx, first.session))
	reaped := second.sweep(10)
	require.Len(t, reaped, 1)
	return first, second, reaped[0]
}

func sweepReaped(t testing.TB, h Harness) {
	r, o, _ := reapedRow(t, h)
	third := r.other("third")
	require.Empty(t, third.sweep(10))
	require.Empty(t, o.sweep(10))
	require.Empty(t, r.sweep(10))
	r.Advance(t, reapFor-time.Minute)
	o.present()
	require.Empty(t, third.sweep(10), "the reaper still has time")
}

func sweepReapDead(t testing.TB, h Harness) {
	r, o, first := reapedRow(t, h)
	third := r.other("third")
	require.NoError(t, o.Leave(o.ctx, o.session))
	reaped := third.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, first.Fence+1, reaped[0].Fence)
	require.Equal(t, first.Attempt, reaped[0].Attempt)
	require.False(t, reaped[0].Present)
	end := retry(first.Task, 0)
	require.Equal(t, same(store.Lost, 1), o.settle(end), "its settlement comes too late")
	third.settled(retry(reaped[0].Task, time.Hour))
}

func sweepReapLate(t testing.TB, h Harness) {
	r, o, first := reapedRow(t, h)
	r.Advance(t, reapFor+time.Minute)
	o.present()
	reaped := r.other("third").sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, first.Fence+1, reaped[0].Fence)
	require.True(t, reaped[0].Present)
	require.Equal(t, same(store.Lost, 1), o.settle(retry(first.Task, 0)))
}

func sweepOwn(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.claimLate()
	reaped := r.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, row.Fence+1, reaped[0].Fence)
	require.Equal(t, same(store.Lost, 1), r.settle(finish(row)), "the attempt itself holds it no longer")
	r.settled(retry(reaped[0].Task, 0))
}

// What is left until a deadline of some thousand years ago is less than a duration can say.
func sweepAncient(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.Insert(t, store.EnqueueRequest{Type: kind, RunAt: time.Date(400, 1, 3, 0, 0, 0, 0, time.UTC)})
	w := want(kind, 1)
	w.Deadline = time.Hour
	require.Len(t, r.claim(w), 1)
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := r.other("second").sweep(10)
	require.Len(t, reaped, 1)
	require.Less(t, reaped[0].Left, -200*365*24*time.Hour)
}

func sweepSettled(t testing.TB, h Harness) {
	r, o, row := reapedRow(t, h)
	end := retry(row.Task, 0)
	end.RanFence, end.Started = row.RanFence, -1
	end.Outcome = task.Outcome{Verdict: task.Lost, Error: "its agent is gone"}
	o.settled(end)
	require.Equal(t, same(store.Ended, 1), o.settle(end))
	got := r.get(row.ID)
	require.Equal(t, task.StateRetryPending, got.State)
	require.Len(t, got.History, 1)
	require.Equal(t, row.RanFence, got.History[0].Fence, "the history names the fence that the task saw")
	require.Equal(t, row.RanSession, got.History[0].Session)
	require.NotNil(t, got.History[0].StartedAt)
	require.WithinDuration(t, row.ClaimedAt, *got.History[0].StartedAt, time.Millisecond, "when it was claimed")
	again := o.claim(want(kind, 1))
	require.Len(t, again, 1)
	require.Equal(t, &task.Previous{Outcome: task.Lost, Error: "its agent is gone"}, again[0].Previous)
}
