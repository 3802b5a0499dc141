package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func afterFollower(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	for _, early := range []bool{true, false} {
		first := r.Insert(t, store.EnqueueRequest{Type: kind, Key: "k"})[0]
		row := r.run(5)[0]
		follower, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Key: "k", OnLive: store.OnLiveAgain})
		require.NoError(t, err)
		id := r.after(follower)
		if early {
			r.unblocked(0, 0)
		}
		r.settled(finish(row))
		require.Equal(t, first, row.ID)
		r.unblocked(0, 0)
		r.waiting([]task.ID{id}, id)
		got := r.run(5)
		require.Equal(t, []task.ID{follower}, ids(got))
		cancelled, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Key: "k", OnLive: store.OnLiveAgain})
		require.NoError(t, err)
		other := r.after(cancelled)
		if early {
			r.unblocked(0, 0)
		}
		r.did(became(task.StateCancelled), r.h.Cancel, cancelled, "")
		r.settled(finish(got[0]))
		r.unblocked(1, 1)
		require.Equal(t, store.WhyCancelled(cancelled, task.StateCancelled), r.get(other).Error)
		got = r.run(5)
		require.Equal(t, []task.ID{id}, ids(got))
		r.settled(finish(got[0]))
	}
}

func afterLock(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	holder := r.Insert(t, store.EnqueueRequest{Type: kind, Lock: "x"})[0]
	id := r.Insert(t, store.EnqueueRequest{Type: kind, Lock: "x", After: r.insert(1)})[0]
	rows := r.run(5)
	require.Len(t, rows, 2)
	r.settled(finish(rows[1]))
	r.unblocked(1, 0)
	require.Empty(t, r.run(5), "the lock is held")
	require.Equal(t, task.HoldLock, r.get(id).Held)
	require.Equal(t, holder, rows[0].ID)
	r.settled(finish(rows[0]))
	_, err := r.Promote(r.ctx, 1000)
	require.NoError(t, err)
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
}

func afterBatch(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(2)
	rows := r.run(5)
	id, waiting := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, After: first[:1]}, store.EnqueueRequest{Type: kind, After: first[1:]})
	r.unblocked(0, 0)
	require.EqualValues(t, 2, r.look(id).Waiting)
	r.settled(finish(rows[0]), fails(rows[1]))
	r.unblocked(1, 1)
	got := r.run(5)
	require.Equal(t, waiting[:1], ids(got))
	r.settled(finish(got[0]))
	r.fold()
	b := r.look(id)
	require.EqualValues(t, 1, b.Succeeded)
	require.EqualValues(t, 1, b.Cancelled)
	require.NotNil(t, b.EndedAt)
}

func afterBatchStops(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)
	id, waiting := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, After: first})
	next := r.after(waiting...)
	r.unblocked(0, 0)
	_, err := r.CancelBatch(r.ctx, id, "alice")
	require.NoError(t, err)
	r.steps()
	require.Equal(t, task.StateCancelled, r.state(waiting[0]))
	r.unblocked(0, 1)
	require.Equal(t, store.WhyCancelled(waiting[0], task.StateCancelled), r.get(next).Error)
}

func afterNotDue(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)
	id := r.Insert(t, store.EnqueueRequest{Type: kind, After: first, RunAt: r.now().Add(-time.Hour)})[0]
	r.unblocked(0, 0)
	rows := r.run(5)
	_, ok, err := r.NextDue(r.ctx, store.Claim{Session: r.session, Wants: []store.Want{want(kind, 5)}})
	require.NoError(t, err)
	require.False(t, ok, "a row that waits is not due")
	s := r.stats()
	require.Zero(t, s.OldestDue[kind])
	require.Contains(t, s.Waiting, store.TypeCount{Type: kind, State: task.StatePending, N: 1}, "it is counted")
	later := r.Insert(t, store.EnqueueRequest{Type: kind, After: first, In: time.Hour})[0]
	r.settled(finish(rows[0]))
	r.unblocked(2, 0)
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
	require.WithinDuration(t, r.now().Add(time.Hour), r.get(later).RunAt, slack, "what is due later stays so")
}

func afterSeen(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	require.Nil(t, r.get(r.insert(1)[0]).Related)
	first := r.insert(2)
	id := r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{first[1], first[0], first[1]}, AfterIf: store.AfterIfAny})[0]
	other := r.after(first[0])
	r.unblocked(0, 0)
	pending := func(id task.ID) store.Neighbour { return store.Neighbour{ID: id, Type: kind, State: task.StatePending} }
	require.Equal(t, &store.Related{
		After: []store.Neighbour{pending(first[0]), pending(first[1])}, AfterTotal: 2, AfterIf: store.AfterIfAny,
	}, r.get(id).Related)
	require.Equal(t, &store.Related{
		Waiting: []store.Neighbour{pending(id), pending(other)}, WaitingTotal: 2,
	}, r.get(first[0]).Related)
	r.did(became(task.StateCancelled), r.h.Cancel, first[0], "")
	r.unblocked(0, 1)
	cancelled := store.Neighbour{ID: first[0], Type: kind, State: task.StateCancelled}
	require.Equal(t, &store.Related{
		After: []store.Neighbour{cancelled}, AfterTotal: 1, AfterIf: store.AfterIfSucceeded, CancelledFor: first[0],
	}, r.get(other).Related)
	require.Equal(t, &store.Related{
		Cancelled: []store.Neighbour{{ID: other, Type: kind, State: task.StateCancelled}}, CancelledTotal: 1,
	}, r.get(first[0]).Related)
	for range store.MostNeighbours {
		r.after(first[1])
	}
	r.unblocked(0, 0)
	got := r.get(first[1]).Related
	require.Len(t, got.Waiting, store.MostNeighbours)
	require.Equal(t, store.MostNeighbours+1, got.WaitingTotal)
}
