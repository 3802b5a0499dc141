package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

const day = 24 * time.Hour

func maintainChecks() []Check {
	return []Check{
		{"only what finished long ago is removed", maintainOld},
		{"live rows stay for ever", maintainLive},
		{"history goes with its task", maintainHistory},
		{"settling goes on through the days", maintainDays},
		{"an empty store", maintainEmpty},
	}
}

// maintain does the housekeeping as often as its bounded steps may need.
func (r *rig) maintain(retention time.Duration) (removed int64) {
	r.t.Helper()
	for range 10 {
		n, err := r.Maintain(r.ctx, retention)
		require.NoError(r.t, err)
		require.GreaterOrEqual(r.t, n, int64(0))
		removed += n
	}
	return removed
}

func (r *rig) gone(id task.ID) {
	r.t.Helper()
	_, err := r.Get(r.ctx, id)
	require.ErrorIs(r.t, err, store.ErrNoTask)
}

func maintainOld(t testing.TB, h Harness) {
	r := newRig(t, h)
	old := r.held()
	r.settled(finish(old))
	r.maintain(7 * day)
	r.state(old.ID)
	r.Advance(t, 6*day)
	r.maintain(7 * day)
	r.state(old.ID)
	young := r.held()
	r.settled(finish(young))
	r.Advance(t, 5*day)
	r.maintain(7 * day)
	r.gone(old.ID)
	require.Equal(t, task.StateSucceeded, r.state(young.ID))
	require.Equal(t, []task.ID{young.ID}, r.list(store.TaskFilter{}))
	r.Advance(t, 5*day)
	r.maintain(7 * day)
	r.gone(young.ID)
	r.nothing()
}

func maintainLive(t testing.TB, h Harness) {
	r := newRig(t, h)
	w := want(kind, 1)
	w.Window = 100 * day
	waits := r.Insert(t, store.EnqueueRequest{Type: "b"})[0]
	r.insert(1)
	runs := r.claim(w)[0]
	failed := r.heldOf("c")
	r.settled(retry(failed, 0))
	future := r.Insert(t, store.EnqueueRequest{Type: "d", In: 365 * day})[0]
	r.Advance(t, 90*day)
	require.Zero(t, r.maintain(day))
	require.Equal(t, task.StatePending, r.state(waits))
	require.Equal(t, task.StateRunning, r.state(runs.ID))
	require.Equal(t, task.StateRetryPending, r.state(failed.ID))
	require.Len(t, r.get(failed.ID).History, 1, "nor its history, however old")
	require.Equal(t, task.StatePending, r.state(future))
	r.present()
	r.settled(finish(runs))
}

func maintainHistory(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(retry(row, 0))
	r.Advance(t, 10*day)
	r.maintain(3 * day)
	second := r.claim(want(kind, 1))[0]
	r.settled(finish(second))
	r.Advance(t, 2*day)
	r.maintain(3 * day)
	require.Len(t, r.get(row.ID).History, 2, "both are kept as long as the task is")
	r.Advance(t, 3*day)
	r.maintain(3 * day)
	r.gone(row.ID)
	for _, answer := range r.settle(retry(row, 0), finish(second)) {
		require.Equal(t, "lost", answer.String(), "its history is gone too")
	}
}

func maintainDays(t testing.TB, h Harness) {
	r := newRig(t, h)
	var all []task.ID
	for range 12 {
		row := r.held()
		r.settled(finish(row))
		all = append(all, row.ID)
		r.Advance(t, day)
		r.maintain(90 * day)
		r.present()
	}
	for _, id := range all {
		require.Equal(t, task.StateSucceeded, r.state(id))
	}
	row := r.held()
	r.Advance(t, 40*day) // no Maintain has added that day's partition
	r.settled(finish(row))
	require.Equal(t, task.StateSucceeded, r.state(row.ID))
	require.Len(t, r.list(store.TaskFilter{}), len(all)+1)
}

func maintainEmpty(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Zero(t, r.maintain(7*day))
	r.nothing()
}
