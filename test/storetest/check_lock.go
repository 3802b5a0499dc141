package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func lockChecks() []Check {
	return []Check{
		{"one row of a lock runs at once", lockOne},
		{"a claim says that it has held rows back", lockCut},
		{"the next is the first in the order of claims", lockOrder},
		{"the first of each class is next", lockClasses},
		{"two types have one lock", lockTypes},
		{"a claim of runs and rollbacks", lockPhases},
		{"every end frees it", lockEnds},
		{"backoff does not hold it", lockBackoff},
		{"what may be at work keeps it", lockUnknown},
		{"a claim takes a lock that was left", lockTaken},
		{"a sweep holds it, and its settlement frees it", lockSwept},
		{"a rollback takes it", lockRollback},
		{"a cancelled row is followed by the next", lockCancel},
		{"a row that is cancelled while it waits for its lock just ends", lockCancelHeld},
		{"a revived row is a candidate", lockRevived},
		{"a row whose values are replaced is followed by the next", lockReplaced},
		{"a row that an application keeps", lockKept},
		{"what waits for a lock is not due", lockNotDue},
		{"it is seen", lockSeen},
		{"rows of batches", lockBatch},
		{"rows of a batch that stops", lockBatchStops},
		{"a lost promotion is repeated", lockCrash},
		{"many agents and few locks", lockMany},
	}
}

func lockOne(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x, y := r.locked("x", 3), r.locked("y", 2)
	free := r.insert(2)
	got := r.take(10)
	require.Equal(t, []task.ID{x[0], y[0], free[0], free[1]}, ids(got))
	for _, row := range got[:2] {
		require.Equal(t, r.get(row.ID).Lock, row.Lock, "the lock of a claimed row")
	}
	r.waitFor([]task.ID{x[1], x[2], y[1]}, slices.Concat(x, y)...)
	require.Empty(t, r.take(10))
	r.promoted(0)
	r.settled(finish(got[0]), finish(got[2]))
	require.Empty(t, r.take(10), "what is held back waits for a promotion")
	r.promoted(1)
	r.waitFor([]task.ID{x[2], y[1]}, slices.Concat(x, y)...)
	got = append(got, r.take(10)...)
	require.Equal(t, x[1], got[4].ID)
	r.settled(finish(got[1]), finish(got[4]))
	r.promoted(2)
	last := r.take(10)
	require.Equal(t, []task.ID{x[2], y[1]}, ids(last))
	r.settled(finish(last[0]), finish(last[1]))
	r.promoted(0)
}

func lockCut(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 3)
	free := r.insert(1)
	cut := false
	claim := func() []task.Task {
		r.claims++
		got, err := r.Claim(r.ctx, store.Claim{Session: r.session, Number: r.claims, Cut: &cut, Wants: []store.Want{want(kind, 2)}})
		require.NoError(t, err)
		return got
	}
	require.Equal(t, x[:1], ids(claim()))
	require.True(t, cut, "there may be more behind the row that was held back")
	require.Equal(t, free, ids(claim()))
	require.True(t, cut)
	require.Empty(t, claim())
	require.False(t, cut)
}

func lockOrder(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	add := func(priority int, ago time.Duration) task.ID {
		return r.Insert(t, store.EnqueueRequest{Type: kind, Lock: "x", Priority: priority, RunAt: r.now().Add(-ago)})[0]
	}
	first, third, second := add(1, time.Minute), add(0, time.Minute), add(0, time.Hour)
	fourth := add(-1, 2*time.Hour)
	for _, id := range []task.ID{first, second, third, fourth} {
		got := r.take(4)
		require.Equal(t, []task.ID{id}, ids(got))
		r.settled(finish(got[0]))
		r.promote()
	}
}

func lockClasses(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	holder := r.Insert(t, store.EnqueueRequest{Type: kind, Lock: "x", Priority: 10})[0]
	var all []task.ID
	for _, q := range []store.EnqueueRequest{
		{Type: kind}, {Type: kind}, {Type: "suite.other"}, {Type: "suite.other"}, {Type: kind, Region: "sg"}, {Type: kind, Region: "sg"},
	} {
		q.Lock = "x"
		all = append(all, r.Insert(t, q)...)
	}
	got := r.claimIn("sg", want(kind, 10), want("suite.other", 10))
	require.Equal(t, []task.ID{holder}, ids(got))
	r.waitFor(all, all...)
	r.settled(finish(got[0]))
	r.promoted(3)
	r.waitFor([]task.ID{all[1], all[3], all[5]}, all...)
	require.Equal(t, []task.ID{all[2]}, ids(r.claim(want("suite.other", 10))), "those who claim no other type can go on")
	require.Empty(t, r.claimIn("sg", want(kind, 10)))
	r.waitFor([]task.ID{all[0], all[1], all[3], all[4], all[5]}, all...)
}

func lockTypes(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	a := r.Insert(t, store.EnqueueRequest{Type: "suite.other", Lock: "x"})[0]
	b := r.locked("x", 1)[0]
	got := r.claim(want(kind, 1), want("suite.other", 1))
	require.Equal(t, []task.ID{b}, ids(got), "the first want comes first")
	r.waitFor([]task.ID{a}, a, b)
	r.settled(finish(got[0]))
	r.promoted(1)
	require.Equal(t, []task.ID{a}, ids(r.claim(want(kind, 1), want("suite.other", 1))))
}

func lockPhases(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	back := r.locked("x", 1)[0]
	r.settled(ended(r.take(1)[0], task.Failed, task.StateRollbackPending))
	run := r.locked("x", 1)[0]
	got := r.claim(wantOf(kind, task.Rollback, 5), wantOf(kind, task.Run, 5))
	require.Equal(t, []task.ID{run}, ids(got), "a run comes before a rollback")
	r.waitFor([]task.ID{back}, back, run)
	require.Equal(t, task.StateRollbackPending, r.state(back))
	r.settled(finish(got[0]))
	r.promoted(1)
	require.Equal(t, []task.ID{back}, ids(r.take(5)))
}

// lockEnds has a row leave its lock in each way in which an attempt ends.
func lockEnds(t testing.TB, h Harness) {
	for name, end := range map[string]func(r *lockRig, row task.Task){
		"succeeded": func(r *lockRig, row task.Task) { r.settled(finish(row)) },
		"with a report": func(r *lockRig, row task.Task) {
			e := finish(row)
			e.Report = reported(`0.5`, "half", `{"page":1}`)
			r.settled(e)
		},
		"failed":         func(r *lockRig, row task.Task) { r.settled(ended(row, task.Failed, task.StateFailed)) },
		"cancelled":      func(r *lockRig, row task.Task) { r.settled(ended(row, task.Cancelled, task.StateCancelled)) },
		"to be retried":  func(r *lockRig, row task.Task) { r.settled(retry(row, farOff)) },
		"rolled back":    func(r *lockRig, row task.Task) { r.settled(ended(row, task.Failed, task.StateRollbackPending)) },
		"completed":      func(r *lockRig, row task.Task) { r.completes(row) },
		"completed, SQL": func(r *lockRig, row task.Task) { r.completesSQL(row) },
	} {
		r := newLockRig(t, h)
		x := r.locked(name, 3)
		got := r.claim(wantOf(kind, task.Run, 5))
		require.Equal(t, x[:1], ids(got), name)
		end(r, got[0])
		r.promoted(1)
		r.waitFor(x[2:], x[1:]...)
		later := r.claim(wantOf(kind, task.Run, 5))
		require.Equal(t, x[1:2], ids(later), name)
		r.settled(finish(later[0]))
		r.promote()
		r.settled(finish(r.claim(wantOf(kind, task.Run, 5))[0]))
		r.promote()
	}
}

func (r *lockRig) completes(row task.Task) {
	r.t.Helper()
	a, err := r.Complete(r.ctx, row.ID, row.Fence, nil)
	require.NoError(r.t, err)
	require.Equal(r.t, store.Applied, a)
}

func (r *lockRig) completesSQL(row task.Task) {
	r.t.Helper()
	app := r.Begin(r.t)
	require.NoError(r.t, app.Complete(r.ctx, row.ID, row.Fence, nil))
	require.NoError(r.t, app.Commit(r.ctx))
}

func lockBackoff(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 2)
	row := r.take(5)[0]
	r.settled(retry(row, time.Hour))
	r.promoted(1)
	other := r.take(5)
	require.Equal(t, x[1:], ids(other))
	r.Advance(t, 2*time.Hour)
	require.Empty(t, r.take(5), "now it has to wait itself")
	r.waitFor(x[:1], x...)
	r.settled(finish(other[0]))
	r.promoted(1)
	require.Equal(t, x[:1], ids(r.take(5)))
}

// lockUnknown ends attempts of which something may be at work until their lease's end.
func lockUnknown(t testing.TB, h Harness) {
	for _, next := range []task.State{task.StateSucceeded, task.StateFailed, task.StateRetryPending} {
		r := newLockRig(t, h)
		x := r.locked("x"+string(next), 2)
		row := r.take(5)[0]
		require.Equal(t, x[0], row.ID)
		end := ended(row, task.TimedOut, next)
		end.Next.AfterLease = true
		r.settled(end)
		p := r.promote()
		require.Zero(t, p.Rows, "it is not over")
		require.Positive(t, p.Next)
		left := wantOf(kind, task.Run, 1).Window
		require.LessOrEqual(t, p.Next, left)
		require.Greater(t, p.Next, left-slack)
		late := r.locked("x"+string(next), 1)[0]
		require.Empty(t, r.take(5), "nor for those who come later")
		r.waitFor([]task.ID{x[1], late}, x[1], late)
		r.Advance(t, p.Next+time.Second)
		require.Equal(t, 1, r.promote().Rows)
		got := r.claim(wantOf(kind, task.Run, 1))
		require.Len(t, got, 1)
		for len(got) > 0 {
			r.settled(finish(got[0]))
			r.promote()
			got = r.take(1)
		}
	}
}

// lockTaken has a new row come before a promotion.
func lockTaken(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 2)
	row := r.take(5)[0]
	r.settled(finish(row))
	late := r.locked("x", 1)[0]
	got := r.take(5)
	require.Equal(t, []task.ID{late}, ids(got), "the lock is free, and it is the one that is no longer held back")
	r.promoted(0)
	r.waitFor(x[1:], x[1], late)
	r.settled(finish(got[0]))
	r.promoted(1)
	require.Equal(t, x[1:], ids(r.take(5)))
}
