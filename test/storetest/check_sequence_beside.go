package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func sequenceReplaced(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	q := store.EnqueueRequest{Type: kind, Sequence: "x", Key: "k", RunAt: r.now().Add(farOff)}
	first, _, err := r.Enqueue(r.ctx, q)
	require.NoError(t, err)
	x := r.rows("x", 2)
	require.Empty(t, r.take(5))
	r.held(x, first, x[0], x[1])
	q.Sequence, q.OnLive = "y", store.OnLiveReplace
	id, answer, err := r.Enqueue(r.ctx, q)
	require.NoError(t, err)
	require.Equal(t, first, id)
	require.Equal(t, store.EnqueuedReplaced, answer)
	r.promoted(1)
	r.run(x[0])
	r.run(x[1])
	require.Equal(t, "y", r.get(first).Sequence)
}

// A row that goes to another sequence keeps no turn of the one that it leaves, not even for the claim that takes rows of both.
func sequenceLeft(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	y := r.row("y")
	running := r.take(5)
	require.Equal(t, []task.ID{y}, ids(running))
	q := store.EnqueueRequest{Type: kind, Sequence: "x", Key: "k", RunAt: r.now().Add(farOff)}
	goes, _, err := r.Enqueue(r.ctx, q)
	require.NoError(t, err)
	x := r.row("x")
	require.Empty(t, r.take(5), "the first of x is due later")
	q.Sequence, q.OnLive, q.RunAt = "y", store.OnLiveReplace, r.now().Add(-time.Minute)
	_, answer, err := r.Enqueue(r.ctx, q)
	require.NoError(t, err)
	require.Equal(t, store.EnqueuedReplaced, answer)
	last := r.row("x")
	for _, row := range r.take(5) {
		require.Equal(t, x, row.ID, "another row of y runs")
		running = append(running, row)
	}
	for _, row := range running {
		r.settled(finish(row))
	}
	r.promote()
	var ran []task.ID
	for range 4 {
		for _, row := range r.take(5) {
			ran = append(ran, row.ID)
			r.settled(finish(row))
		}
		r.promote()
	}
	require.Subset(t, []task.ID{goes, x, last}, ran)
	require.Contains(t, ran, goes)
	require.Contains(t, ran, last)
	require.Equal(t, task.StateSucceeded, r.state(x))
}

func sequenceFollowed(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	q := store.EnqueueRequest{Type: kind, Sequence: "x", Key: "k"}
	first, _, err := r.Enqueue(r.ctx, q)
	require.NoError(t, err)
	q.OnLive = store.OnLiveAgain
	follower, _, err := r.Enqueue(r.ctx, q)
	require.NoError(t, err)
	last := r.row("x")
	require.Less(t, follower, last)
	require.Equal(t, "x", r.get(follower).Sequence)
	r.run(first)
	r.run(follower)
	r.run(last)
}

func sequenceLocked(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	l := r.locked("l", 1)[0]
	holder := r.take(5)
	require.Equal(t, []task.ID{l}, ids(holder))
	q := store.EnqueueRequest{Type: kind, Sequence: "x", Lock: "l"}
	a := r.Insert(t, q, q)
	require.Empty(t, r.take(5))
	r.waitFor(a[:1], a...)
	r.held(a[1:], a...)
	r.is(store.SequenceInfo{Sequence: "x", State: store.SequenceWaiting, Task: a[0], Waiting: 1})
	r.settled(finish(holder[0]))
	r.promoted(1)
	r.run(a[0])
	r.run(a[1])
}

func sequenceLimited(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	a := agent("who limits")
	a.Types, a.Limits = []string{kind}, []store.TypeLimit{{Name: kind, Types: []string{kind}, Most: 2}}
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	_, err = r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: agent("limited")})
	require.NoError(t, err)
	x := r.rows("x", 3)
	free := r.insert(3)
	got := r.take(10)
	require.Equal(t, []task.ID{x[0], free[0]}, ids(got), "what waits for its turn takes no place")
	r.settled(finish(got[0]))
	r.promote()
	require.Len(t, r.take(10), 1)
}

// sequenceAfter: the row that is next waits for a row of its own sequence, which has failed and is brought back.
func sequenceAfter(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	other := r.insert(1)[0]
	got := r.take(5)
	require.Equal(t, []task.ID{other}, ids(got))
	first := r.row("x")
	next := r.Insert(t, store.EnqueueRequest{Type: kind, Sequence: "x", After: []task.ID{other, first}, AfterIf: store.AfterIfAny})[0]
	last := r.row("x")
	r.end(first, task.Failed, task.StateFailed)
	_, err := r.SkipSequence(r.ctx, kind, "x", 0, "")
	require.NoError(t, err)
	r.promote()
	require.Empty(t, r.take(5), "its turn is that of a row which waits for another")
	_, err = r.Retry(r.ctx, first, "alice")
	require.NoError(t, err)
	r.settled(finish(got[0]))
	unblockAll(r.ctx, t, r, 1000)
	require.Equal(t, task.HoldAfter, r.get(next).Held, "what it waits for is read anew")
	r.run(first)
	unblockAll(r.ctx, t, r, 1000)
	r.run(next)
	r.run(last)
}
