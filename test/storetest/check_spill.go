package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func spillChecks() []Check {
	return []Check{
		{"what has waited too long, of other regions", spillLate},
		{"those of its own region claim it as well", spillOwn},
		{"a retried row has waited since it was first due", spillRetried},
		{"a row that asked to be run later is due anew", spillDeferred},
		{"a rollback is due anew", spillRollback},
		{"a row that was released has kept its place", spillReleased},
		{"a revived row is of its region again", spillRevived},
		{"a replaced row is of the new region", spillReplaced},
		{"rows with a lock, a sequence, a tenant", spillFlow},
		{"what has not been freed by others stays", spillAfter},
		{"so many at once, the longest waiting first", spillMany},
		{"a crash spills none twice", spillCrash},
	}
}

// spill has an agent of that region take over what has waited for ten minutes.
func (r *rig) spill(region string, types ...string) int {
	r.t.Helper()
	var of []store.Spill
	for _, typ := range append(types, kind) {
		of = append(of, store.Spill{Type: typ, After: 10 * time.Minute})
	}
	n, err := r.Spill(r.ctx, region, of)
	require.NoError(r.t, err)
	return n
}

// spillable inserts a row of a region that is due now.
func (r *rig) spillable(region string) task.ID {
	r.t.Helper()
	return r.Insert(r.t, store.EnqueueRequest{Type: kind, Region: region})[0]
}

func spillLate(t testing.TB, h Harness) {
	r := newRig(t, h)
	sg, eu, none, other := r.spillable("sg"), r.spillable("eu"), r.spillable(""), r.Insert(t, store.EnqueueRequest{Type: "other", Region: "sg"})[0]
	future := r.Insert(t, store.EnqueueRequest{Type: kind, Region: "sg", In: 5 * time.Minute})[0]
	r.Advance(t, 9*time.Minute)
	require.Zero(t, r.spill("eu"))
	require.ElementsMatch(t, []task.ID{none, eu}, ids(r.claimIn("eu", want(kind, 10))))
	r.Advance(t, 2*time.Minute)
	require.Equal(t, 1, r.spill("eu"), "one has waited for six minutes, another is of a type that does not spill")
	require.Zero(t, r.spill("eu"), "again")
	require.True(t, r.get(sg).Spilled)
	require.False(t, r.get(future).Spilled)
	got := r.claimIn("eu", want(kind, 10), want("other", 10))
	require.Equal(t, []task.ID{sg}, ids(got))
	require.Equal(t, "sg", got[0].Region, "its task knows of no other region")
	require.True(t, got[0].Spilled)
	list, err := r.List(r.ctx, store.TaskFilter{Type: kind, Limit: 10})
	require.NoError(t, err)
	for _, i := range list {
		require.Equal(t, map[task.ID]string{sg: "sg", eu: "eu", future: "sg"}[i.ID], i.Region, "task %d", i.ID)
		require.Equal(t, i.ID == sg, i.Spilled, "task %d", i.ID)
	}
	r.settled(finish(got[0]))
	require.Equal(t, "sg", r.get(sg).Region)
	require.False(t, r.get(sg).Spilled, "it has ended")
	require.Equal(t, task.StatePending, r.state(other))
}

func spillOwn(t testing.TB, h Harness) {
	r := newRig(t, h)
	id := r.spillable("sg")
	r.Advance(t, 11*time.Minute)
	require.Zero(t, r.spill("sg"), "an agent takes nothing over from its own region")
	require.Empty(t, r.claimIn("", want(kind, 1)))
	require.Equal(t, 1, r.spill(""), "an agent of no region is another")
	require.Equal(t, []task.ID{id}, ids(r.claimIn("sg", want(kind, 1))))
}

func spillRetried(t testing.TB, h Harness) {
	r := newRig(t, h)
	id := r.spillable("sg")
	r.Advance(t, 4*time.Minute)
	for range 2 {
		r.settled(retry(r.claimIn("sg", want(kind, 1))[0], 0))
		r.Advance(t, time.Minute)
	}
	r.settled(retry(r.claimIn("sg", want(kind, 1))[0], 8*time.Minute))
	require.Zero(t, r.spill(""), "after six minutes")
	r.Advance(t, 5*time.Minute)
	require.Equal(t, 1, r.spill(""), "after eleven, though it is not due yet")
	require.Empty(t, r.claim(want(kind, 1)))
	r.Advance(t, 4*time.Minute)
	got := r.claim(want(kind, 1))
	require.Equal(t, []task.ID{id}, ids(got))
	r.settled(retry(got[0], 0))
	require.Equal(t, []task.ID{id}, ids(r.claim(want(kind, 1))), "it stays anyone's")
	require.Equal(t, "sg", r.get(id).Region)
}

func spillDeferred(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.spillable("sg")
	r.Advance(t, 9*time.Minute)
	later := retry(r.claimIn("sg", want(kind, 1))[0], time.Minute)
	later.Outcome.Verdict, later.Next.Deferrals = task.Deferred, 1
	r.settled(later)
	r.Advance(t, 10*time.Minute)
	require.Zero(t, r.spill(""), "it has been due for nine minutes")
	r.settled(retry(r.claimIn("sg", want(kind, 1))[0], 0))
	r.Advance(t, 2*time.Minute)
	require.Equal(t, 1, r.spill(""), "and for eleven")
}

func spillRollback(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.spillable("sg")
	r.Advance(t, 9*time.Minute)
	r.settled(retry(r.claimIn("sg", want(kind, 1))[0], 0))
	r.Advance(t, time.Second)
	e := retry(r.claimIn("sg", want(kind, 1))[0], 0)
	e.Next = task.Transition{State: task.StateRollbackPending, EverStarted: true}
	r.settled(e)
	r.Advance(t, 9*time.Minute)
	require.Zero(t, r.spill(""))
	r.Advance(t, 2*time.Minute)
	require.Equal(t, 1, r.spill(""))
	back := want(kind, 1)
	back.Phase = task.Rollback
	require.Len(t, r.claim(back), 1)
}

func spillReleased(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.spillable("sg")
	r.Advance(t, 9*time.Minute)
	r.settled(release(r.claimIn("sg", want(kind, 1))[0]))
	r.Advance(t, 2*time.Minute)
	require.Equal(t, 1, r.spill(""))
}

func spillRevived(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.declare(kind, beating())
	id := r.spillable("sg")
	r.Advance(t, 11*time.Minute)
	require.Equal(t, 1, r.spill(""))
	r.settled(ended(r.claim(want(kind, 1))[0], task.Failed, task.StateFailed))
	r.did(became(task.StatePending), r.h.Retry, id, "")
	require.Empty(t, r.claim(want(kind, 1)))
	require.Zero(t, r.spill(""), "it has become due only now")
	require.Equal(t, []task.ID{id}, ids(r.claimIn("sg", want(kind, 1))))
}

func spillReplaced(t testing.TB, h Harness) {
	r := newRig(t, h)
	for way, add := range r.enqueueings() {
		q := store.EnqueueRequest{Type: kind, Key: way, OnLive: store.OnLiveReplace, Region: "sg"}
		id := r.does(store.EnqueuedInserted, add, q)
		r.Advance(t, 11*time.Minute)
		require.Equal(t, 1, r.spill(""))
		q.Region = "eu"
		require.Equal(t, id, r.does(store.EnqueuedReplaced, add, q))
		require.False(t, r.get(id).Spilled)
		require.Empty(t, r.claimIn("sg", want(kind, 1)))
		require.Equal(t, []task.ID{id}, ids(r.claimIn("eu", want(kind, 1))))
	}
}

func spillFlow(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	rows := r.Insert(t,
		store.EnqueueRequest{Type: kind, Region: "sg", Lock: "x"}, store.EnqueueRequest{Type: kind, Region: "sg", Lock: "x"},
		store.EnqueueRequest{Type: kind, Region: "sg", Sequence: "s"}, store.EnqueueRequest{Type: kind, Region: "sg", Sequence: "s"},
		store.EnqueueRequest{Type: kind, Region: "sg", Tenant: "t"})
	r.Advance(t, 11*time.Minute)
	require.Equal(t, 5, r.spill(""))
	got := r.take(10)
	require.ElementsMatch(t, []task.ID{rows[0], rows[2], rows[4]}, ids(got))
	for _, row := range got {
		r.settled(finish(row))
	}
	_, err := r.Promote(r.ctx, 100)
	require.NoError(t, err)
	require.ElementsMatch(t, []task.ID{rows[1], rows[3]}, ids(r.take(10)))
}

func spillAfter(t testing.TB, h Harness) {
	r := newRig(t, h)
	first := r.insert(1)[0]
	id := r.Insert(t, store.EnqueueRequest{Type: kind, Region: "sg", After: []task.ID{first}})[0]
	r.Advance(t, 11*time.Minute)
	require.Zero(t, r.spill(""))
	r.settled(finish(r.claim(want(kind, 1))[0]))
	for n := 1; n > 0; {
		u, err := r.Unblock(r.ctx, 100)
		require.NoError(t, err)
		n = u.Worked
	}
	require.Zero(t, r.spill(""), "it has become due only now")
	require.Equal(t, []task.ID{id}, ids(r.claimIn("sg", want(kind, 1))))
}

func spillMany(t testing.TB, h Harness) {
	r := newRig(t, h)
	var rows []store.EnqueueRequest
	for i := range store.SpillMost + 100 {
		region := []string{"sg", "eu"}[i%2]
		rows = append(rows, store.EnqueueRequest{Type: kind, Region: region, RunAt: r.now().Add(-time.Hour - time.Duration(i)*time.Second)})
	}
	all := r.Insert(t, rows...)
	require.Equal(t, store.SpillMost/2+50, r.spill("sg", "other"))
	require.Zero(t, r.spill("sg"))
	last := len(all) - 1
	require.True(t, r.get(all[last]).Spilled)
	require.False(t, r.get(all[last-1]).Spilled)
	require.Equal(t, store.SpillMost/2+50, r.spill("us"))
}

func spillCrash(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, point := range r.Failpoints() {
		id := r.spillable("sg")
		r.Advance(t, 11*time.Minute)
		r.crashing(point, func() error {
			_, err := r.Spill(r.ctx, "", []store.Spill{{Type: kind, After: 10 * time.Minute}})
			return err
		})
		require.LessOrEqual(t, r.spill(""), 1, point)
		got := r.claim(want(kind, 1))
		require.Equal(t, []task.ID{id}, ids(got), point)
		require.Equal(t, "sg", got[0].Region, point)
	}
}
