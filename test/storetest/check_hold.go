package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func holdChecks() []Check {
	return []Check{
		{"a hold changes nothing", holdNothing},
		{"a stale fence holds nothing", holdStale},
		{"a lease that has ended is not held", holdLate},
		{"no session takes a held row away", holdKeeps},
		{"a hold outlasts the window", holdOutlasts},
		{"a slow transaction stalls no other row", holdSlow},
	}
}

func holdNothing(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.unchanged(row.ID, func() {
		require.NoError(t, r.holdSQL(row.ID, row.Fence))
		require.NoError(t, r.bySQL(func(ctx context.Context, a Application) error {
			require.NoError(t, a.Hold(ctx, row.ID, row.Fence))
			return a.Hold(ctx, row.ID, row.Fence)
		}), "twice in a transaction")
		a := r.Begin(t)
		require.NoError(t, a.Hold(r.ctx, row.ID, row.Fence))
		require.NoError(t, a.Rollback(r.ctx))
	})
	r.settled(finish(row))
	back := r.rollingBack(beating())
	require.NoError(t, r.holdSQL(back.ID, back.Fence), "a rollback holds its row, too")
}

func holdStale(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	refused := func(id task.ID, fences ...task.Fence) {
		t.Helper()
		for _, f := range fences {
			gone(t, r.holdSQL(id, f))
		}
	}
	row := r.heldUnder(beating())
	refused(row.ID, 0, -1, row.Fence-1, row.Fence+1, row.Fence+2)
	refused(999_999_999, row.Fence)
	refused(r.insertFar(), 0, 1)
	r.settled(retry(row, 0))
	refused(row.ID, row.Fence, row.Fence+1, row.Fence+2)
	next := r.claim(under(beating(), 1))[0]
	refused(row.ID, row.Fence, row.Fence+1)
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Len(t, o.sweep(10), 1)
	refused(row.ID, next.Fence, next.Fence+1)
	o.present()
	last := o.heldUnder(beating())
	o.settled(finish(last))
	refused(last.ID, last.Fence, last.Fence+1)
}

func holdLate(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.Advance(t, beating().Window(task.Run)+time.Minute)
	gone(t, r.holdSQL(row.ID, row.Fence))
	require.Equal(t, store.Applied, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Minute}))
	require.NoError(t, r.holdSQL(row.ID, row.Fence))
}

func holdKeeps(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	if !r.keepsRows() {
		return // while the transaction is open, no other can write at all
	}
	o := r.second()
	for _, end := range []func(a Application) error{
		func(a Application) error { return a.Commit(r.ctx) }, func(a Application) error { return a.Rollback(r.ctx) },
	} {
		o.present()
		row := r.heldUnder(beating())
		a := r.Begin(t)
		require.NoError(t, a.Hold(r.ctx, row.ID, row.Fence))
		require.Equal(t, store.Applied, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Minute, Exact: true}))
		r.counted(row, store.Ping{})
		require.Equal(t, store.Cancelling, o.cancel(row.ID, "alice"))
		require.Equal(t, same(store.Busy, 2), r.settle(finish(row), finish(row)))
		require.Equal(t, store.Busy, o.complete(row.ID, row.Fence, ""))
		_, answer := r.adopt(row.ID, row.Fence)
		require.Equal(t, store.Busy, answer)
		require.Equal(t, same(store.CancelPending, 1), r.settle(retry(row, 0)))
		require.NoError(t, r.Leave(r.ctx, r.session))
		require.Empty(t, o.sweep(10))
		require.Equal(t, row.Fence, r.get(row.ID).Fence)
		require.NoError(t, end(a))
		require.Len(t, o.sweep(10), 1)
		gone(t, r.holdSQL(row.ID, row.Fence))
	}
}

func holdOutlasts(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	if !r.keepsRows() {
		return
	}
	o := r.second()
	row := r.heldUnder(beating())
	a := r.Begin(t)
	require.NoError(t, a.Hold(r.ctx, row.ID, row.Fence))
	w := store.Renewal{ID: row.ID, Fence: row.Fence, Age: time.Minute, Exact: true}
	require.Equal(t, store.Applied, r.renewOne(w), "the window is over")
	require.Empty(t, o.sweep(10))
	require.NoError(t, a.Complete(r.ctx, row.ID, row.Fence, raw(`1`)), "what was held can be completed")
	require.Empty(t, o.sweep(10))
	require.Equal(t, task.StateRunning, r.state(row.ID), "not before the commit")
	require.NoError(t, a.Commit(r.ctx))
	require.Empty(t, o.sweep(10))
	require.Equal(t, task.StateSucceeded, r.state(row.ID))
}

func holdSlow(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	if !r.keepsRows() {
		return
	}
	const bound = 10 * time.Second // far more than all of it takes, and far less than a lock would be waited for
	r.insert(40)
	rows := r.claim(under(beating(), 40))
	slow := rows[20]
	a := r.Begin(t)
	require.NoError(t, a.Hold(r.ctx, slow.ID, slow.Fence))
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.ctx, bound)
	defer cancel()

	renewals := make([]store.Renewal, len(rows))
	pings := make([]store.RemotePing, len(rows))
	ends := make([]store.Settlement, len(rows))
	want := same(store.Applied, len(rows))
	for i, row := range rows {
		renewals[i] = store.Renewal{ID: row.ID, Fence: row.Fence, Window: 20 * time.Minute, Report: reported(`0.1`, "", "")}
		pings[i] = store.RemotePing{ID: row.ID, Fence: row.Fence}
		ends[i] = finish(row)
		if i%2 == 1 {
			ends[i] = retry(row, 0)
		}
	}
	answers, err := r.Renew(ctx, r.session, renewals)
	require.NoError(t, err)
	require.Equal(t, want, answers)
	replies, err := r.TakePings(ctx, pings)
	require.NoError(t, err)
	for i := range replies {
		require.Equal(t, store.Applied, replies[i].Answer)
	}
	answers, err = r.Settle(ctx, r.session, ends)
	require.NoError(t, err)
	want[20] = store.Busy
	require.Equal(t, want, answers)
	next, err := r.Claim(ctx, store.Claim{Session: r.session, Number: 99, Wants: []store.Want{under(beating(), 100)}})
	require.NoError(t, err)
	require.Len(t, next, 20)
	o := r.second()
	require.NoError(t, r.Leave(ctx, r.session))
	reaped, err := o.Sweep(ctx, o.session, 100, reapFor, o.view())
	require.NoError(t, err)
	require.Len(t, reaped, 20)
	require.Less(t, time.Since(began), bound)
	require.NoError(t, a.Commit(r.ctx))
	require.Len(t, o.sweep(100), 1)
}
