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

func lockSwept(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 2)
	dead := &lockRig{r.twin()}
	require.Equal(t, x[:1], ids(dead.take(5)))
	r.Advance(t, farOff)
	r.present()
	reaped := r.sweep(5)
	require.Len(t, reaped, 1)
	require.Equal(t, "x", reaped[0].Lock)
	r.promoted(0)
	require.Empty(t, r.take(5), "a row that is being reaped has its lock")
	end := ended(reaped[0].Task, task.Lost, task.StateRetryPending)
	end.RanFence = reaped[0].RanFence
	r.settled(end)
	r.promoted(1)
	require.Len(t, r.take(5), 1)
}

func lockRollback(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 2)
	r.settled(ended(r.take(5)[0], task.Failed, task.StateRollbackPending))
	r.promoted(1)
	got := r.take(5)
	require.Equal(t, x[1:], ids(got), "the run of one, not the rollback of the other")
	r.waitFor(x[:1], x...)
	r.settled(finish(got[0]))
	r.promoted(1)
	got = r.take(5)
	require.Equal(t, x[:1], ids(got))
	require.Equal(t, task.StateRollbackRunning, got[0].State)
	late := r.locked("x", 1)
	require.Empty(t, r.take(5))
	r.settled(ended(got[0], task.Succeeded, task.StateRolledBack))
	r.promoted(1)
	require.Equal(t, late, ids(r.take(5)))
}

func lockCancel(t testing.TB, h Harness) {
	for name, rollsBack := range map[string]bool{"ends": false, "is rolled back": true} {
		r := newLockRig(t, h)
		x := r.locked(name, 3)
		row := r.take(5)[0]
		if rollsBack {
			r.settled(retry(row, 0)) // it comes back as a candidate
		} else {
			r.settled(finish(row))
		}
		r.promoted(1)
		next := x[1]
		if rollsBack {
			next = x[0]
			_, err := r.Cancel(r.ctx, x[1], "")
			require.NoError(t, err)
			r.promoted(1)
		}
		became, err := r.Cancel(r.ctx, next, "alice")
		require.NoError(t, err)
		if rollsBack {
			require.Equal(t, store.Became(task.StateRollbackPending), became)
		}
		r.promote()
		require.False(t, r.get(x[2]).Held, "%s: the lock is free, and the one before is gone", name)
		got := r.claim(wantOf(kind, task.Run, 5))
		require.Equal(t, x[2:], ids(got), name)
		r.settled(finish(got[0]))
		r.promote()
		for _, row := range r.take(5) {
			r.settled(ended(row, task.Succeeded, task.StateRolledBack))
		}
		r.promote()
	}
}

func lockCancelHeld(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 3)
	row := r.take(5)[0]
	became, err := r.Cancel(r.ctx, x[1], "alice")
	require.NoError(t, err)
	require.Equal(t, store.Became(task.StateCancelled), became)
	require.False(t, r.get(x[1]).Held)
	p, err := r.Promote(r.ctx, 1000)
	require.NoError(t, err)
	require.Equal(t, store.Promoted{}, p, "no other has waited for it")
	r.settled(finish(row))
	r.promoted(1)
	require.Equal(t, x[2:], ids(r.take(5)))
}

func lockRevived(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 2)
	r.settled(ended(r.take(5)[0], task.Failed, task.StateFailed))
	require.Equal(t, "x", r.get(x[0]).Lock, "in the archive")
	r.promoted(1)
	other := r.take(5)
	require.Equal(t, x[1:], ids(other))
	_, err := r.Retry(r.ctx, x[0], "alice")
	require.NoError(t, err)
	require.Equal(t, "x", r.get(x[0]).Lock)
	r.waitFor(nil, x...)
	require.Empty(t, r.take(5))
	r.waitFor(x[:1], x...)
	r.settled(finish(other[0]))
	r.promoted(1)
	require.Equal(t, x[:1], ids(r.take(5)))
}

// lockReplaced gives the next row another due time, and then a row that waits for its lock another lock.
func lockReplaced(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 1)
	next := r.enqueue(store.EnqueueRequest{Type: kind, Key: "k", Lock: "x"}, true)
	last := r.locked("x", 2)
	got := r.take(5)
	require.Equal(t, x, ids(got))
	r.settled(finish(got[0]))
	r.promoted(1)
	q := store.EnqueueRequest{Type: kind, Key: "k", Lock: "x", OnLive: store.OnLiveReplace, In: farOff}
	replace := func() {
		id, answer, err := r.Enqueue(r.ctx, q)
		require.NoError(t, err)
		require.Equal(t, store.EnqueuedReplaced, answer)
		require.Equal(t, next, id)
	}
	replace()
	r.promoted(1)
	got = r.take(5)
	require.Equal(t, last[:1], ids(got), "the one behind it")
	q.In = 0
	replace()
	require.Empty(t, r.take(5))
	r.waitFor([]task.ID{next, last[1]}, next, last[1])
	q.Lock = "y"
	replace()
	require.Equal(t, "y", r.get(next).Lock)
	require.Equal(t, []task.ID{next}, ids(r.take(5)), "it waits for x no more")
	r.settled(finish(got[0]))
	r.promoted(1)
	require.Equal(t, last[1:], ids(r.take(5)))
}

// lockKept has an application keep the only row that waits for a lock, and then one of two.
func lockKept(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 3)
	row := r.take(5)[0]
	release := r.LockRow(t, x[1])
	if release == nil {
		return // no locks on rows
	}
	r.settled(finish(row))
	require.Equal(t, 1, r.promote().Rows)
	r.waitFor(x[1:2], x...)
	row = r.take(5)[0]
	require.Equal(t, x[2], row.ID, "the other goes first")
	r.settled(finish(row))
	p := r.promote()
	require.Zero(t, p.Rows)
	require.True(t, p.Missed)
	release()
	require.Equal(t, 1, r.promote().Rows)
	require.Equal(t, x[1:2], ids(r.take(5)))
}

func lockNotDue(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 2)
	r.Advance(t, time.Hour)
	r.present()
	row := r.claim(want(kind, 5))[0]
	c := store.Claim{Session: r.session, Wants: []store.Want{want(kind, 1)}}
	_, ok, err := r.NextDue(r.ctx, c)
	require.NoError(t, err)
	require.False(t, ok, "what waits for its lock cannot be claimed")
	stats, err := r.Stats(r.ctx)
	require.NoError(t, err)
	require.Zero(t, stats.OldestDue[kind])
	require.Contains(t, stats.Waiting, store.TypeCount{Type: kind, State: task.StatePending, N: 1})
	r.settled(finish(row))
	r.promoted(1)
	in, ok, err := r.NextDue(r.ctx, c)
	require.NoError(t, err)
	require.True(t, ok)
	require.Zero(t, in)
	stats, err = r.Stats(r.ctx)
	require.NoError(t, err)
	require.Greater(t, stats.OldestDue[kind], 30*time.Minute)
	require.Equal(t, x[1:], ids(r.claim(want(kind, 5))))
}

// lockSeen looks at each place that shows a lock, and at rows that came by each way.
func lockSeen(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	for name, add := range r.ways() {
		id := add(store.EnqueueRequest{Type: kind, Lock: name})
		require.Equal(t, name, r.get(id).Lock)
		row := r.claim(want(kind, 1))[0]
		require.Equal(t, name, row.Lock)
		again, err := r.Claimed(r.ctx, r.session, r.claims)
		require.NoError(t, err)
		require.Equal(t, name, again[0].Lock)
		listed, err := r.List(r.ctx, store.TaskFilter{})
		require.NoError(t, err)
		require.Equal(t, name, listed[0].Lock)
		r.settled(finish(row))
		require.Equal(t, name, r.get(id).Lock)
	}
	id := r.insert(1)[0]
	require.Empty(t, r.get(id).Lock)
	require.Empty(t, r.claim(want(kind, 1))[0].Lock)
}

func lockBatch(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := store.EnqueueRequest{Type: kind, Lock: "x"}
	id, rows := r.batch(store.BatchRequest{}, x, x, store.EnqueueRequest{Type: kind})
	got := r.take(5)
	require.Equal(t, []task.ID{rows[0], rows[2]}, ids(got))
	b := r.inState(id, store.BatchRunning)
	require.EqualValues(t, 2, b.Running)
	require.EqualValues(t, 1, b.Waiting)
	r.settled(finish(got[0]), finish(got[1]))
	r.promoted(1)
	got = r.take(5)
	require.Equal(t, rows[1:2], ids(got))
	r.settled(finish(got[0]))
	r.fold()
	r.inState(id, store.BatchSucceeded)
}

// lockBatchStops has a batch stop whose row would be the next.
func lockBatchStops(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	first := r.locked("x", 1)
	id, rows := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, Lock: "x"})
	last := r.locked("x", 1)
	got := r.take(5)
	require.Equal(t, first, ids(got))
	_, err := r.CancelBatch(r.ctx, id, "alice")
	require.NoError(t, err)
	r.settled(finish(got[0]))
	r.promote()
	require.Empty(t, r.take(5), "the next is of a batch that stops")
	r.steps()
	require.Equal(t, task.StateCancelled, r.state(rows[0]))
	r.promoted(1)
	require.Equal(t, last, ids(r.take(5)))
}

// lockCrash has a store crash at each point of a promotion.
func lockCrash(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	for _, point := range r.Failpoints() {
		x := r.locked(point, 2)
		row := r.take(5)[0]
		r.settled(finish(row))
		hit := r.crash(point)
		_, err := r.Promote(r.ctx, 1000)
		r.Fail(nil)
		if hit() {
			require.ErrorIs(t, err, errCrash, point)
		}
		_, err = r.Promote(r.ctx, 1000)
		require.NoError(t, err)
		got := r.take(5)
		require.Equal(t, x[1:], ids(got), point)
		r.settled(finish(got[0]))
		r.promote()
	}
}
