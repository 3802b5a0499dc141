package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

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
		require.Empty(t, r.get(x[2]).Held, "%s: the lock is free, and the one before is gone", name)
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
	require.Empty(t, r.get(x[1]).Held)
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
