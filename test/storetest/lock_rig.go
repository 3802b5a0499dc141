package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// lockRig is a rig for rows with locks.
type lockRig struct{ *opsRig }

func newLockRig(t testing.TB, h Harness) *lockRig { return &lockRig{newOpsRig(t, h)} }

// locked inserts n due rows of kind with a lock.
func (r *lockRig) locked(name string, n int) []task.ID {
	r.t.Helper()
	all := make([]task.ID, n)
	for i := range all {
		all[i] = r.Insert(r.t, store.EnqueueRequest{Type: kind, Lock: name})[0]
	}
	return all
}

// take claims up to n rows of kind, to be run or to be rolled back, as often as the claim holds some back.
func (r *lockRig) take(n int) (rows []task.Task) {
	r.t.Helper()
	for range 1000 {
		var cut bool
		r.claims++
		got, err := r.Claim(r.ctx, store.Claim{Session: r.session, Number: r.claims, Cut: &cut, Wants: []store.Want{
			wantOf(kind, task.Run, n), wantOf(kind, task.Rollback, n),
		}})
		require.NoError(r.t, err)
		if rows = append(rows, got...); !cut {
			return rows
		}
	}
	require.Fail(r.t, "claims hold back rows without an end")
	return nil
}

// promoted has locks passed on until there are none, and asserts how many rows may be claimed by that.
func (r *lockRig) promoted(rows int) {
	r.t.Helper()
	require.Equal(r.t, rows, r.promote().Rows, "rows that may be claimed")
}

// promote has locks passed on, and returns what the first call did.
func (r *lockRig) promote() store.Promoted {
	r.t.Helper()
	p, err := r.Promote(r.ctx, 1000)
	require.NoError(r.t, err)
	require.LessOrEqual(r.t, p.Rows, 1000)
	again, err := r.Promote(r.ctx, 1000)
	require.NoError(r.t, err)
	if !p.Missed {
		require.Zero(r.t, again.Rows, "a repeat promotes nothing")
		require.Zero(r.t, again.Noted, "a repeat finds nothing")
	}
	r.right(!p.Missed && again.Next == 0)
	return p
}

// right asserts that no two tasks run with one lock, and none waits for a free one.
func (r *lockRig) right(passedOn bool) {
	r.t.Helper()
	all, err := r.List(r.ctx, store.TaskFilter{Limit: 1000})
	require.NoError(r.t, err)
	locksAreRight(r.t, all, r.Now(), passedOn)
}

// waitFor asserts which of some tasks wait for their lock.
func (r *lockRig) waitFor(want []task.ID, of ...task.ID) {
	r.t.Helper()
	var got []task.ID
	for _, id := range of {
		if r.get(id).Held == task.HoldLock {
			got = append(got, id)
		}
	}
	require.Equal(r.t, want, got, "which tasks wait for their lock")
}
