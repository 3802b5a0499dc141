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
		{"a judged row is left to its judge", sweepJudged},
		{"a judged row whose judge has died", sweepJudgeDead},
		{"a judged row whose judge is late", sweepJudgeLate},
		{"a judge's own dead rows", sweepOwn},
		{"a judge who is absent", sweepAbsent},
		{"after the clock was set back", sweepClockBack},
		{"a clock that has moved unseen", sweepClockMoved},
		{"rows of one whose presence is longer than the calm", sweepCalm},
		{"a deadline that passed long ago", sweepAncient},
		{"a judgement is settled", sweepSettled},
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

func sweepClockBack(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	r.Advance(t, -24*time.Hour)
	require.Empty(t, o.sweep(10), "nobody has been seen since")
	o.present()
	r.present()
	require.Empty(t, o.sweep(10))
	r.Advance(t, -24*time.Hour)
	o.present()
	swept := o.sweep(10)
	require.Len(t, swept, 1, "its session has not been seen since, however far ahead its presence ends")
	require.Equal(t, row.ID, swept[0].ID)
	require.False(t, swept[0].Present)
}

// Between a leap of the store's clock and its being noticed a sweep knows the time of before.
func sweepClockMoved(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	asked := 0
	believes := func(off time.Duration) []store.Swept {
		swept, err := o.Sweep(o.ctx, o.session, 10, judge, func() store.Clock {
			asked++
			return store.Clock{Now: o.Now().Add(off), Calm: later}
		})
		require.NoError(t, err)
		return swept
	}
	r.Advance(t, presence+time.Minute)
	o.present()
	for _, off := range []time.Duration{-later, -slack, slack, later} {
		require.Empty(t, believes(off), "it is off by %s", off)
	}
	never, err := o.Sweep(o.ctx, o.session, 10, judge, func() store.Clock { return store.Clock{} })
	require.NoError(t, err)
	require.Empty(t, never, "it does not know the time")
	require.Equal(t, row.Fence, r.get(row.ID).Fence)
	swept := believes(0)
	require.Len(t, swept, 1)
	require.Equal(t, row.ID, swept[0].ID)
	require.LessOrEqual(t, asked, 5, "each time once")
}

// After a jump of the clock somebody may be alive until the presence is over that it had before.
func sweepCalm(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row, mine := r.held(), o.held()
	r.Advance(t, later)
	o.present()
	calm := func(d time.Duration) []store.Swept {
		swept, err := o.Sweep(o.ctx, o.session, 10, judge, func() store.Clock { return store.Clock{Now: o.Now(), Calm: d} })
		require.NoError(t, err)
		return swept
	}
	swept := calm(0)
	require.Len(t, swept, 1, "it knows of itself that it is not")
	require.Equal(t, mine.ID, swept[0].ID)
	require.Empty(t, calm(presence-slack))
	require.Equal(t, row.Fence, r.get(row.ID).Fence)
	require.Len(t, calm(presence+slack), 1)

	r.present()
	next := r.held()
	r.Advance(t, presence/2)
	o.present()
	require.NoError(t, r.Leave(r.ctx, r.session))
	swept = calm(slack)
	require.Len(t, swept, 1, "it has left, so it is not there")
	require.Equal(t, next.ID, swept[0].ID)
}

func sweepLease(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.claimLate()
	swept := r.other("second").sweep(10)
	require.Len(t, swept, 1)
	require.Equal(t, row.ID, swept[0].ID)
	require.True(t, swept[0].Present)
}

func sweepPresence(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.Advance(t, presence+time.Minute)
	swept := r.other("second").sweep(10)
	require.Len(t, swept, 1, "its lease is open, and its session silent")
	require.Equal(t, row.ID, swept[0].ID)
	require.False(t, swept[0].Present)
}

func sweepLeft(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	require.Empty(t, o.sweep(10))
	require.NoError(t, r.Leave(r.ctx, r.session))
	swept := o.sweep(10)
	require.Len(t, swept, 1)
	require.Equal(t, row.ID, swept[0].ID)
	require.False(t, swept[0].Present)
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
	swept := r.other("second").sweep(10)
	require.Len(t, swept, 1)
	require.Equal(t, row.ID, swept[0].ID)
	require.False(t, swept[0].Present)
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
	swept := o.sweep(10)
	require.Len(t, swept, 1)
	got := swept[0]
	require.Equal(t, row.Fence, got.RanFence)
	require.Equal(t, row.Fence+1, got.Fence)
	require.Equal(t, task.StateRunning, got.State)
	require.Equal(t, kind, got.Type)
	require.Equal(t, row.Attempt, got.Attempt)
	require.True(t, got.EverStarted)
	require.Equal(t, row.Policy, got.Policy)
	require.Nil(t, got.Payload, "a judge needs no documents")
	require.Equal(t, row.Previous, got.Previous)
	require.WithinDuration(t, *before.ClaimedAt, got.ClaimedAt, time.Millisecond)
	require.WithinDuration(t, *before.Deadline, got.Deadline, time.Millisecond)
	require.InDelta(t, time.Hour-later, got.Left, float64(slack))
	near(t, r.now().Add(judge), got.LeaseEnd)

	after := r.get(row.ID)
	require.Equal(t, o.session, after.Session)
	require.Equal(t, got.Fence, after.Fence)
	require.WithinDuration(t, got.LeaseEnd, *after.LeaseEnd, time.Millisecond)
	before.Session, before.Agent, before.Fence, before.LeaseEnd = after.Session, "second", after.Fence, after.LeaseEnd
	require.Equal(t, before, after, "and nothing else")

	r.Advance(t, time.Hour)
	o.present()
	swept = o.sweep(10)
	require.Len(t, swept, 1)
	require.InDelta(t, -later, swept[0].Left, float64(slack), "past its deadline")
}

func sweepRollback(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	undo := retry(row, 0)
	undo.Next = task.Transition{State: task.StateRollbackPending, EverStarted: true}
	r.settled(undo)
	w := want(kind, 1)
	w.Phase = task.Rollback
	require.Len(t, r.claim(w), 1)
	r.Advance(t, later)
	swept := r.other("second").sweep(10)
	require.Len(t, swept, 1)
	require.Equal(t, task.StateRollbackRunning, swept[0].State)
	require.Equal(t, task.Rollback, swept[0].Phase())
}

func sweepLimit(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	all := r.insert(7)
	r.claim(want(kind, 7))
	require.NoError(t, r.Leave(r.ctx, r.session))
	var got []task.ID
	for _, n := range []int{3, 3, 1} {
		swept := o.sweep(3)
		require.Len(t, swept, n)
		for _, w := range swept {
			got = append(got, w.ID)
		}
	}
	require.ElementsMatch(t, all, got)
	require.Empty(t, o.sweep(3))
}

// judged is a row that a second agent has swept from a first that left.
func judged(t testing.TB, h Harness) (first, second *rig, row store.Swept) {
	t.Helper()
	first = newRig(t, h)
	second = first.other("second")
	first.held()
	require.NoError(t, first.Leave(first.ctx, first.session))
	swept := second.sweep(10)
	require.Len(t, swept, 1)
	return first, second, swept[0]
}

func sweepJudged(t testing.TB, h Harness) {
	r, o, _ := judged(t, h)
	third := r.other("third")
	require.Empty(t, third.sweep(10))
	require.Empty(t, o.sweep(10))
	require.Empty(t, r.sweep(10))
	r.Advance(t, judge-time.Minute)
	o.present()
	require.Empty(t, third.sweep(10), "the judge still has time")
}

func sweepJudgeDead(t testing.TB, h Harness) {
	r, o, first := judged(t, h)
	third := r.other("third")
	require.NoError(t, o.Leave(o.ctx, o.session))
	swept := third.sweep(10)
	require.Len(t, swept, 1)
	require.Equal(t, first.Fence+1, swept[0].Fence)
	require.Equal(t, first.Attempt, swept[0].Attempt)
	require.False(t, swept[0].Present)
	end := retry(first.Task, 0)
	require.Equal(t, same(store.Lost, 1), o.settle(end), "its judgement comes too late")
	third.settled(retry(swept[0].Task, time.Hour))
}

func sweepJudgeLate(t testing.TB, h Harness) {
	r, o, first := judged(t, h)
	r.Advance(t, judge+time.Minute)
	o.present()
	swept := r.other("third").sweep(10)
	require.Len(t, swept, 1)
	require.Equal(t, first.Fence+1, swept[0].Fence)
	require.True(t, swept[0].Present)
	require.Equal(t, same(store.Lost, 1), o.settle(retry(first.Task, 0)))
}

func sweepOwn(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.claimLate()
	swept := r.sweep(10)
	require.Len(t, swept, 1)
	require.Equal(t, row.Fence+1, swept[0].Fence)
	require.Equal(t, same(store.Lost, 1), r.settle(finish(row)), "the attempt itself holds it no longer")
	r.settled(retry(swept[0].Task, 0))
}

// After a jump of the store's clock all sessions are absent, until each has written its next sign of life. Whoever
// sweeps first must not find everybody else dead.
func sweepAbsent(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	own := o.held()
	r.Advance(t, presence+time.Minute)
	require.Empty(t, o.sweep(10), "it is absent itself")
	require.Equal(t, row.Fence, r.get(row.ID).Fence)
	require.Equal(t, own.Fence, r.get(own.ID).Fence)
	o.present()
	swept := o.sweep(10)
	require.Len(t, swept, 1)
	require.Equal(t, row.ID, swept[0].ID)
	require.NoError(t, o.Leave(o.ctx, o.session))
	require.Empty(t, o.sweep(10), "who has left judges nobody")
}

// What is left until a deadline of some thousand years ago is less than a duration can say.
func sweepAncient(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.Insert(t, store.EnqueueRequest{Type: kind, RunAt: time.Date(400, 1, 3, 0, 0, 0, 0, time.UTC)})
	w := want(kind, 1)
	w.Deadline = time.Hour
	require.Len(t, r.claim(w), 1)
	require.NoError(t, r.Leave(r.ctx, r.session))
	swept := r.other("second").sweep(10)
	require.Len(t, swept, 1)
	require.Less(t, swept[0].Left, -200*365*24*time.Hour)
}

func sweepSettled(t testing.TB, h Harness) {
	r, o, row := judged(t, h)
	end := retry(row.Task, 0)
	end.RanFence, end.Started = row.RanFence, -1
	end.Outcome = task.Outcome{Verdict: task.Lost, Error: "its agent is gone"}
	o.settled(end)
	require.Equal(t, same(store.Ended, 1), o.settle(end))
	got := r.get(row.ID)
	require.Equal(t, task.StateRetryPending, got.State)
	require.Len(t, got.History, 1)
	require.Equal(t, row.RanFence, got.History[0].Fence, "the history names the fence that the task saw")
	require.Equal(t, o.session, got.History[0].Session)
	require.Nil(t, got.History[0].StartedAt)
	again := o.claim(want(kind, 1))
	require.Len(t, again, 1)
	require.Equal(t, &task.Previous{Outcome: task.Lost, Error: "its agent is gone"}, again[0].Previous)
}
