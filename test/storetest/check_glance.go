package storetest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func glanceChecks() []Check {
	return []Check{
		{"as get has them", glanceAsGet},
		{"the newest", glanceNewest},
	}
}

// glances is a rig on a store that is looked at again and again. The model is not.
func glances(t testing.TB, h Harness) (*opsRig, ops.Glances) {
	t.Helper()
	g, ok := h.(ops.Glances)
	require.True(t, ok)
	return newOpsRig(t, h), g
}

// glanced is what Get has of a glance.
func glanced(i *store.TaskInfo) store.Glance {
	return store.Glance{
		ID: i.ID, Type: i.Type, State: i.State, Attempt: i.Attempt, Deferrals: i.Deferrals, Fence: i.Fence, RunAt: i.RunAt, LeaseEnd: i.LeaseEnd,
		CancelRequested: i.CancelRequested, FinishedAt: i.FinishedAt, Progress: i.Progress, Message: i.Message, FailedTask: i.FailedTask,
		NotJSON: i.NotJSON,
	}
}

func glanceAsGet(t testing.TB, h Harness) {
	r, g := glances(t, h)
	none, err := g.Glance(r.ctx, []task.ID{1, 2})
	require.NoError(t, err)
	require.Empty(t, none)
	running := r.heldUnder(beating())
	r.counted(running, store.Ping{Progress: raw(`{"done":4,"total":9}`), Message: "half"})
	_, err = r.Cancel(r.ctx, running.ID, "alice")
	require.NoError(t, err)
	ids := []task.ID{
		running.ID, r.rowIn(store.EnqueueRequest{Type: kind}, task.StatePending, false),
		r.rowIn(store.EnqueueRequest{Type: kind}, task.StateRetryPending, true),
		r.rowIn(store.EnqueueRequest{Type: kind}, task.StateSucceeded, true), r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true),
		r.rowIn(store.EnqueueRequest{Type: kind, Key: "k"}, task.StateRetryPending, true),
	}
	follower, answer, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Key: "k", OnLive: store.OnLiveAgain})
	require.NoError(t, err)
	require.Equal(t, store.EnqueuedFollows, answer)
	ids = append(ids, follower)
	var want []store.Glance
	for _, id := range ids {
		want = append(want, glanced(r.get(id)))
	}
	slices.SortFunc(want, func(a, b store.Glance) int { return int(a.ID - b.ID) })
	slices.Reverse(ids)
	got, err := g.Glance(r.ctx, append(ids, follower+100, ids[0]))
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NotNil(t, got[0].CancelRequested)
	require.Equal(t, "half", got[0].Message)
}

func glanceNewest(t testing.TB, h Harness) {
	r, g := glances(t, h)
	none, err := g.Newest(r.ctx, 2)
	require.NoError(t, err)
	require.Empty(t, none)
	var live, finished []task.ID
	for range 3 {
		finished = append(finished, r.rowIn(store.EnqueueRequest{Type: kind}, task.StateSucceeded, true))
		live = append(live, r.rowIn(store.EnqueueRequest{Type: oneWayKind}, task.StateRetryPending, true))
	}
	got, err := g.Newest(r.ctx, 2)
	require.NoError(t, err)
	require.ElementsMatch(t, []store.Mark{
		{ID: live[1], Type: oneWayKind, State: task.StateRetryPending, Fence: r.get(live[1]).Fence},
		{ID: live[2], Type: oneWayKind, State: task.StateRetryPending, Fence: r.get(live[2]).Fence},
		{ID: finished[1], Type: kind, State: task.StateSucceeded}, {ID: finished[2], Type: kind, State: task.StateSucceeded},
	}, got)
}

// halted counts what is halted.
func (r *rig) halted() store.Halted {
	r.t.Helper()
	x, ok := r.Harness.(ops.Diagnoser)
	require.True(r.t, ok)
	h, err := x.Halted(r.ctx)
	require.NoError(r.t, err)
	return h
}
