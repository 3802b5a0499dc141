package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func onLiveChecks() []Check {
	return []Check{
		{"keep changes nothing", onLiveKeep},
		{"replace gives every value to a row that has never started", onLiveReplaces},
		{"replace of a row that was released before its start", onLiveReleased},
		{"a row that may have started is followed", onLiveStarted},
		{"replace of a row that has a follower replaces that", onLiveBehind},
		{"again follows, and the latest wins", onLiveAgain},
		{"a debounced row is due later each time", onLiveDebounced},
		{"no later than its bound", onLiveBounded},
		{"what contradicts itself is refused", onLiveRefused},
		{"bad values are refused, and change nothing", onLiveBad},
		{"idle agents are woken by a row that is due sooner", onLiveWakes},
	}
}

// enqueueing is one of the two ways to enqueue that say what was done.
type enqueueing func(q store.EnqueueRequest) (task.ID, store.Enqueued, error)

func (r *rig) enqueueings() map[string]enqueueing {
	return map[string]enqueueing{
		"Go":  func(q store.EnqueueRequest) (task.ID, store.Enqueued, error) { return r.Enqueue(r.ctx, q) },
		"SQL": func(q store.EnqueueRequest) (task.ID, store.Enqueued, error) { return r.EnqueueResultSQL(r.t, q) },
	}
}

// does asserts what is done with a row, and returns the id that it gets.
func (r *rig) does(want store.Enqueued, add enqueueing, q store.EnqueueRequest) task.ID {
	r.t.Helper()
	id, answer, err := add(q)
	require.NoError(r.t, err)
	require.Equal(r.t, want, answer)
	require.Positive(r.t, id)
	return id
}

// numbered is a row with a key and a number as its payload.
func numbered(key string, on store.OnLive, n string) store.EnqueueRequest {
	return store.EnqueueRequest{Type: kind, Key: key, OnLive: on, Payload: json.RawMessage(`{"n":` + n + `}`)}
}

func onLiveKeep(t testing.TB, h Harness) {
	r := newRig(t, h)
	for way, add := range r.enqueueings() {
		id := r.does(store.EnqueuedInserted, add, numbered(way, store.OnLiveKeep, "1"))
		r.unchanged(id, func() {
			require.Equal(t, id, r.does(store.EnqueuedKept, add, numbered(way, store.OnLiveKeep, "2")))
		})
		free := store.EnqueueRequest{Type: kind, OnLive: store.OnLiveKeep}
		first := r.does(store.EnqueuedInserted, add, free)
		require.NotEqual(t, first, r.does(store.EnqueuedInserted, add, free), "no key")
	}
}

func onLiveReplaces(t testing.TB, h Harness) {
	r := newRig(t, h)
	for way, add := range r.enqueueings() {
		first := full(r.now())
		first.Key, first.OnLive = way, store.OnLiveReplace
		id := r.does(store.EnqueuedInserted, add, first)
		before := r.get(id)
		next := store.EnqueueRequest{
			Type: kind, Key: way, OnLive: store.OnLiveReplace, Payload: json.RawMessage(`{"n":2}`), Priority: -3, Region: "eu",
			MaxAttempts: 9, Labels: map[string]string{"a": "b"}, Traceparent: "other", CreatedBy: "someone",
			RollbackPayload: json.RawMessage(`{"was":2}`), RunAt: r.now().Add(2 * time.Hour),
		}
		require.Equal(t, id, r.does(store.EnqueuedReplaced, add, next), way)
		got := r.get(id)
		require.JSONEq(t, `{"n":2}`, string(got.Payload))
		require.JSONEq(t, `{"was":2}`, string(got.RollbackPayload))
		require.JSONEq(t, `{"a":"b"}`, string(got.Labels))
		require.Equal(t, -3, got.Priority)
		require.Equal(t, "eu", got.Region)
		require.Equal(t, 9, got.MaxAttempts)
		require.Equal(t, "other", got.Traceparent)
		require.Equal(t, "someone", got.CreatedBy)
		require.WithinDuration(t, next.RunAt, got.RunAt, time.Millisecond)
		require.Equal(t, before.CreatedAt, got.CreatedAt)
		require.Equal(t, task.StatePending, got.State)

		require.Equal(t, id, r.does(store.EnqueuedReplaced, add, store.EnqueueRequest{Type: kind, Key: way, OnLive: store.OnLiveReplace}))
		got = r.get(id)
		require.JSONEq(t, `{}`, string(got.Payload))
		require.Nil(t, got.RollbackPayload)
		require.Nil(t, got.Labels)
		require.Zero(t, got.Priority)
		require.Zero(t, got.MaxAttempts)
		require.Empty(t, got.Region+got.Traceparent+got.CreatedBy)
		near(t, r.now(), got.RunAt)
		require.Equal(t, []task.ID{id}, ids(r.claim(want(kind, 2))), "it is due, and once")
	}
}

func onLiveReleased(t testing.TB, h Harness) {
	r := newRig(t, h)
	for way, add := range r.enqueueings() {
		id := r.does(store.EnqueuedInserted, add, numbered(way, store.OnLiveReplace, "1"))
		w := want(kind, 1)
		w.Deadline = time.Hour
		r.settled(release(r.claim(w)[0]))
		require.NotNil(t, r.get(id).Deadline)
		q := numbered(way, store.OnLiveReplace, "2")
		q.In = 2 * time.Hour
		require.Equal(t, id, r.does(store.EnqueuedReplaced, add, q))
		got := r.get(id)
		require.Nil(t, got.Deadline, "it is that of the former due time")
		require.JSONEq(t, `{"n":2}`, string(got.Payload))
	}
}

func onLiveStarted(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, s := range []task.State{task.StatePending, task.StateRetryPending, task.StateRunning, task.StateRollbackPending, task.StateRollbackRunning} {
		for way, add := range r.enqueueings() {
			key := way + " " + string(s)
			id := r.rowIn(store.EnqueueRequest{Type: kind, Key: key}, s, true)
			r.unchanged(id, func() {
				follower := r.does(store.EnqueuedFollows, add, numbered(key, store.OnLiveReplace, "2"))
				require.NotEqual(t, id, follower, key)
				require.Equal(t, id, r.get(follower).Follows, key)
			})
		}
	}
	id := r.rowIn(store.EnqueueRequest{Type: kind, Key: "claimed"}, task.StateRunning, false)
	r.unchanged(id, func() {
		r.does(store.EnqueuedFollows, r.enqueueings()["Go"], numbered("claimed", store.OnLiveReplace, "2"))
	})
}

func onLiveBehind(t testing.TB, h Harness) {
	r := newRig(t, h)
	for way, add := range r.enqueueings() {
		id := r.does(store.EnqueuedInserted, add, numbered(way, store.OnLiveReplace, "1"))
		follower := r.does(store.EnqueuedFollows, add, numbered(way, store.OnLiveAgain, "2"))
		r.unchanged(id, func() {
			require.Equal(t, follower, r.does(store.EnqueuedFollows, add, numbered(way, store.OnLiveReplace, "3")), "the follower is later")
		})
		require.JSONEq(t, `{"n":3}`, string(r.get(follower).Payload))
	}
}

func onLiveAgain(t testing.TB, h Harness) {
	r := newRig(t, h)
	for way, add := range r.enqueueings() {
		id := r.does(store.EnqueuedInserted, add, numbered(way, store.OnLiveAgain, "1"))
		row := r.claim(want(kind, 1))[0]
		var follower task.ID
		r.unchanged(id, func() {
			q := full(r.now())
			q.Key, q.OnLive = way, store.OnLiveAgain
			follower = r.does(store.EnqueuedFollows, add, q)
			require.Greater(t, follower, id)
			got := r.get(follower)
			require.Equal(t, task.StatePending, got.State)
			require.Equal(t, id, got.Follows)
			require.Equal(t, follower, r.get(id).FollowedBy)
			require.JSONEq(t, `{"tenant":"acme"}`, string(got.Labels))
			require.Equal(t, 3, got.Priority)
			require.Equal(t, "sg", got.Region)
			require.Equal(t, follower, r.does(store.EnqueuedFollows, add, numbered(way, store.OnLiveAgain, "3")), "it keeps its id")
		})
		got := r.get(follower)
		require.JSONEq(t, `{"n":3}`, string(got.Payload))
		require.Nil(t, got.Labels)
		require.Zero(t, got.Priority)
		require.Empty(t, got.Region)
		near(t, r.now(), got.RunAt)
		require.Equal(t, []task.ID{follower, id}, r.list(store.TaskFilter{Key: way}))
		require.Zero(t, r.get(id).Follows)
		require.Empty(t, r.claim(want(kind, 1)), "it is not due")
		r.settled(finish(row))
		require.Zero(t, r.get(follower).Follows)
		require.Equal(t, []task.ID{follower}, ids(r.claim(want(kind, 2))))
	}
}

func onLiveDebounced(t testing.TB, h Harness) {
	r := newRig(t, h)
	for way, add := range r.enqueueings() {
		q := store.EnqueueRequest{Type: kind, Key: way, Debounce: time.Hour}
		id := r.does(store.EnqueuedInserted, add, q)
		near(t, r.now().Add(time.Hour), r.get(id).RunAt)
		for range 3 {
			r.Advance(t, 50*time.Minute)
			require.Equal(t, id, r.does(store.EnqueuedReplaced, add, q))
			near(t, r.now().Add(time.Hour), r.get(id).RunAt)
		}
		require.Empty(t, r.claim(want(kind, 1)))
		r.Advance(t, 2*time.Hour)
		row := r.claim(want(kind, 1))[0]
		follower := r.does(store.EnqueuedFollows, add, q)
		near(t, r.now().Add(time.Hour), r.get(follower).RunAt)
		r.settled(finish(row))
		near(t, r.now().Add(time.Hour), r.get(follower).RunAt)
		require.Equal(t, follower, r.does(store.EnqueuedReplaced, add, q))
		require.Equal(t, follower, r.does(store.EnqueuedReplaced, add, numbered(way, store.OnLiveReplace, "2")), "due at once")
		require.Len(t, r.claim(want(kind, 1)), 1)
	}
}

func onLiveBounded(t testing.TB, h Harness) {
	r := newRig(t, h)
	for way, add := range r.enqueueings() {
		q := store.EnqueueRequest{Type: kind, Key: way, OnLive: store.OnLiveReplace, Debounce: time.Hour, DebounceMax: 90 * time.Minute}
		id := r.does(store.EnqueuedInserted, add, q)
		near(t, r.now().Add(time.Hour), r.get(id).RunAt)
		r.Advance(t, 50*time.Minute)
		r.does(store.EnqueuedReplaced, add, q)
		near(t, r.now().Add(40*time.Minute), r.get(id).RunAt)
		r.Advance(t, 41*time.Minute)
		r.does(store.EnqueuedReplaced, add, q)
		row := r.claim(want(kind, 1))[0]
		require.Equal(t, id, row.ID, "it is due although another has come")

		follower := r.does(store.EnqueuedFollows, add, q)
		r.Advance(t, 50*time.Minute)
		require.Equal(t, follower, r.does(store.EnqueuedFollows, add, q))
		near(t, r.now().Add(40*time.Minute), r.get(follower).RunAt)
		r.settled(finish(row))
		r.Advance(t, 30*time.Minute)
		require.Equal(t, follower, r.does(store.EnqueuedReplaced, add, q))
		near(t, r.now().Add(10*time.Minute), r.get(follower).RunAt)
		r.Advance(t, later)
		require.Len(t, r.claim(want(kind, 1)), 1)
	}
}

func onLiveRefused(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	open, _ := r.batch(store.BatchRequest{Open: true})
	for name, q := range map[string]store.EnqueueRequest{
		"unknown":                {Type: kind, Key: "k", OnLive: "merge"},
		"replace without a key":  {Type: kind, OnLive: store.OnLiveReplace},
		"again without a key":    {Type: kind, OnLive: store.OnLiveAgain},
		"debounce without a key": {Type: kind, Debounce: time.Hour},
		"replace in a batch":     {Type: kind, Key: "k", OnLive: store.OnLiveReplace, Batch: open},
		"again in a batch":       {Type: kind, Key: "k", OnLive: store.OnLiveAgain, Batch: open},
		"debounce in a batch":    {Type: kind, Key: "k", Debounce: time.Hour, Batch: open},
		"debounce and keep":      {Type: kind, Key: "k", OnLive: store.OnLiveKeep, Debounce: time.Hour},
		"debounce and again":     {Type: kind, Key: "k", OnLive: store.OnLiveAgain, Debounce: time.Hour},
		"debounce and due time":  {Type: kind, Key: "k", Debounce: time.Hour, RunAt: r.now()},
		"negative debounce":      {Type: kind, Key: "k", Debounce: -time.Hour},
		"bound below debounce":   {Type: kind, Key: "k", Debounce: time.Hour, DebounceMax: time.Minute},
		"bound alone":            {Type: kind, Key: "k", OnLive: store.OnLiveReplace, DebounceMax: time.Minute},
	} {
		for way, add := range r.enqueueings() {
			id, answer, err := add(q)
			require.Error(t, err, "%s, by %s", name, way)
			require.Zero(t, id)
			require.Empty(t, answer)
		}
		var input *store.InputError
		require.ErrorAs(t, q.Check(), &input, name)
	}
	require.Empty(t, r.list(store.TaskFilter{}))
}

func onLiveBad(t testing.TB, h Harness) {
	r := newRig(t, h)
	add := r.enqueueings()["Go"]
	waiting := r.does(store.EnqueuedInserted, add, numbered("waiting", "", "1"))
	followed := r.does(store.EnqueuedInserted, add, numbered("followed", "", "1"))
	follower := r.does(store.EnqueuedFollows, add, numbered("followed", store.OnLiveAgain, "1"))
	bad := badRequests()
	bad["labels of numbers"] = store.EnqueueRequest{Type: kind, Payload: json.RawMessage(`{`)}
	for name, q := range bad {
		if q.Type == "" {
			continue
		}
		for _, key := range []string{"waiting", "followed"} {
			for _, on := range []store.OnLive{store.OnLiveReplace, store.OnLiveAgain} {
				q.Key, q.OnLive = key, on
				_, _, err := r.Enqueue(r.ctx, q)
				var input *store.InputError
				require.ErrorAs(t, err, &input, "%s, %s, %s", name, key, on)
			}
		}
	}
	for _, id := range []task.ID{waiting, followed, follower} {
		require.JSONEq(t, `{"n":1}`, string(r.get(id).Payload))
	}
	require.Len(t, r.list(store.TaskFilter{}), 3)
}

func onLiveWakes(t testing.TB, h Harness) {
	r := newRig(t, h)
	producer := &rig{Harness: r.Twin(t), t: t, ctx: r.ctx, session: r.session}
	q := numbered("k", store.OnLiveReplace, "1")
	q.In = time.Hour
	r.does(store.EnqueuedInserted, producer.enqueueings()["Go"], q)
	wakes, stop := r.listen()
	defer stop()
	require.NoError(t, r.Idle(r.ctx, r.session, true))
	for way, add := range producer.enqueueings() {
		r.woken(wakes, "replaced by "+way, func() { producer.does(store.EnqueuedReplaced, add, q) })
	}
	r.woken(wakes, "a follower became a task", func() {
		q := numbered("l", store.OnLiveAgain, "1")
		q.Priority = 1
		producer.enqueue(q, true)
		row := r.claim(want(kind, 1))[0]
		producer.does(store.EnqueuedFollows, producer.enqueueings()["Go"], q)
		for len(wakes) > 0 {
			<-wakes // of the insert
		}
		producer.settled(finish(row))
		producer.settled(finish(r.claim(want(kind, 1))[0]))
	})
}

// woken asserts that what f does wakes a session that listens. The first times may come before the listening has begun.
func (r *rig) woken(wakes <-chan struct{}, what string, f func()) {
	r.t.Helper()
	for range 2 { // a wake when the listening begins is allowed, and is not enough
		woken := false
		for try := 0; try < 10 && !woken; try++ {
			f()
			select {
			case <-wakes:
				woken = true
			case <-time.After(time.Second):
			}
		}
		require.True(r.t, woken, what)
	}
}
