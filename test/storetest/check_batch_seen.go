package storetest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// cancels lists what the session holds that is to stop, by id.
func (r *opsRig) cancels() []store.Cancel {
	r.t.Helper()
	list, err := r.h.Cancels(r.ctx, r.session)
	require.NoError(r.t, err)
	slices.SortFunc(list, func(a, b store.Cancel) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// batchCancelSeen: what a session holds of a batch that is being stopped it can learn from the moment of the commit on, long
// before each row is marked; and of a single task, too.
func batchCancelSeen(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	for _, verb := range []string{"cancel", "rollback"} {
		for way, do := range r.bulks(verb) {
			id, _ := r.batchOf(4, store.BatchRequest{})
			mine := r.claim(wantOf(kind, task.Run, 2))
			theirs := o.claim(wantOf(kind, task.Run, 1))[0]
			rolledBack := o.claim(wantOf(kind, task.Run, 1))[0]
			o.settled(ended(rolledBack, task.Failed, task.StateRollbackPending))
			rolledBack = r.claimOne(kind, task.Rollback)
			_, others := r.batchOf(1, store.BatchRequest{})
			plain := r.insert(1)[0]
			rest := r.claim(wantOf(kind, task.Run, 2))
			require.Empty(t, r.cancels(), way)

			_, err := do(r.ctx, id, "alice")
			require.NoError(t, err)
			want := make([]store.Cancel, 2)
			for i, row := range mine {
				want[i] = store.Cancel{ID: row.ID, Fence: row.Fence, Claim: r.claims - 2}
			}
			require.Equal(t, want, r.cancels(), "%s: the rows are not marked yet, and what is rolled back goes on", way)
			require.Equal(t, []task.ID{theirs.ID}, cancelled(o.cancels()), way)

			_, err = r.h.Cancel(r.ctx, plain, "bob")
			require.NoError(t, err)
			require.Len(t, r.cancels(), 3, way)
			r.steps()
			got := r.cancels()
			require.Equal(t, []task.ID{mine[0].ID, mine[1].ID, plain}, cancelled(got), way)
			for _, c := range got {
				require.True(t, c.Requested, way)
			}
			require.Contains(t, got[0].Reason, verb+" by alice")
			require.Equal(t, "bob", got[2].Reason)

			for _, row := range append(mine, theirs) {
				e := ended(row, task.Cancelled, task.StateCancelled)
				e.CancelKnown = true
				r.holder(row, theirs, o).settled(e)
			}
			for _, row := range rest {
				e := finish(row)
				e.CancelKnown = true
				r.settled(e)
			}
			r.settled(ended(rolledBack, task.Succeeded, task.StateRolledBack))
			require.Empty(t, r.cancels(), way)
			r.over()
			r.rollBackAll()
			r.over()
			r.in(task.StateSucceeded, others...)
		}
	}
}

// holder is o for that one row, and r for all others.
func (r *opsRig) holder(row, that task.Task, o *opsRig) *opsRig {
	if row.ID == that.ID {
		return o
	}
	return r
}

func cancelled(list []store.Cancel) (ids []task.ID) {
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	return ids
}
