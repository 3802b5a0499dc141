package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// listen starts a Listen that ends with the test, and waits until it listens.
func listen(t *testing.T, s *Store) (woken chan struct{}) {
	t.Helper()
	woken = make(chan struct{}, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(ctx, func(store.News) { woken <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	await(t, woken)
	return woken
}

func await(t *testing.T, woken chan struct{}) {
	t.Helper()
	select {
	case <-woken:
	case <-time.After(10 * time.Second):
		require.Fail(t, "not woken")
	}
}

func TestInsertsOfOthersWake(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	woken := listen(t, h.Store)
	fastest := time.Hour
	for range 5 {
		start := time.Now()
		require.NoError(t, h.exec(t, "INSERT INTO task (type) VALUES ('x')"))
		await(t, woken)
		fastest = min(fastest, time.Since(start))
	}
	require.Less(t, fastest, 100*time.Millisecond, "the fastest of five, for the machine may be busy")

	require.NoError(t, h.exec(t, "INSERT INTO enqueue (type, key) VALUES ('x', 'k')"))
	await(t, woken)
	_, _, err := h.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"}) // through the store that listens
	require.NoError(t, err)
	await(t, woken)
}

func TestOnlyWhatMayBeClaimedWakes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
	require.NoError(t, err)
	h.Insert(t, store.EnqueueRequest{Type: "x"}, store.EnqueueRequest{Type: "x"}, store.EnqueueRequest{Type: "x"})
	woken := listen(t, h.Store)

	tasks, err := h.Claim(t.Context(), claimOf(session, 1))
	require.NoError(t, err)
	require.Len(t, tasks, 3)
	_, err = h.Renew(t.Context(), session, []store.Renewal{{ID: tasks[0].ID, Fence: 1, Window: time.Hour}})
	require.NoError(t, err)
	_, err = h.Present(t.Context(), store.Heartbeat{Session: session, Agent: store.Agent{Name: "a", Presence: time.Hour}})
	require.NoError(t, err)
	later := released(tasks[1])
	later.Next.Delay = time.Hour
	_, err = h.Settle(t.Context(), session, []store.Settlement{succeeded(tasks[0]), later})
	require.NoError(t, err)
	l, err := newListener(t.Context(), h.read, h.sql)
	require.NoError(t, err)
	seen, err := l.look(t.Context())
	require.NoError(t, err)
	require.Equal(t, work{inserted: 3}, seen, "none of this is a reason to look")

	_, err = h.Settle(t.Context(), session, []store.Settlement{released(tasks[2])})
	require.NoError(t, err)
	await(t, woken)
	seen, err = l.look(t.Context())
	require.NoError(t, err)
	require.Equal(t, work{inserted: 3, released: 1}, seen, "another agent may take what is released")
	require.NoError(t, l.close())
	require.Empty(t, woken, "once, and for nothing else")
}

// released gives a claimed row back.
func released(row task.Task) store.Settlement {
	return store.Settlement{
		ID: row.ID, Fence: row.Fence, RanFence: row.Fence, Phase: row.Phase(), Attempt: row.Attempt, Started: -1, Silent: true,
		Next: task.Transition{State: task.StatePending}, Outcome: task.Outcome{Verdict: task.Drained},
	}
}

// A session looks at once when a row that it holds is to stop, and only then: pings and completions are no reason.
func TestCancellationsWake(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	session := h.session(t, p)
	rows := h.held(t, session, p, task.Run, 3, 0)
	l, err := newListener(t.Context(), h.read, h.sql)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.close()) }()
	before, err := l.look(t.Context())
	require.NoError(t, err)
	news := func() store.News {
		t.Helper()
		now, err := l.look(t.Context())
		require.NoError(t, err)
		n := now.since(before)
		before = now
		return n
	}
	const cancel = "INSERT INTO cancel (id) VALUES (?)"
	require.NoError(t, h.exec(t, "INSERT INTO ping (id, fence, progress) VALUES (?, ?, 0.5)", int64(rows[0].ID), int64(rows[0].Fence)))
	require.NoError(t, h.exec(t, "INSERT INTO complete (id, fence) VALUES (?, ?)", int64(rows[0].ID), int64(rows[0].Fence)))
	require.NoError(t, h.exec(t, cancel, int64(rows[0].ID)))
	require.Zero(t, news(), "what has finished is not asked anything")
	require.NoError(t, h.exec(t, cancel, int64(rows[1].ID)))
	require.Equal(t, store.CancelNews, news())
	require.NoError(t, h.exec(t, cancel, int64(rows[1].ID)))
	require.Zero(t, news(), "once")
	_, err = h.Cancel(t.Context(), rows[2].ID, "alice")
	require.NoError(t, err)
	require.Equal(t, store.CancelNews, news())

	failed := released(h.held(t, session, p, task.Run, 1, 0)[0])
	failed.Silent, failed.Next = false, task.Transition{State: task.StateRetryPending, EverStarted: true, Delay: time.Hour}
	_, err = h.Settle(t.Context(), session, []store.Settlement{failed})
	require.NoError(t, err)
	news()
	require.NoError(t, h.exec(t, cancel, int64(failed.ID)))
	require.Equal(t, store.Due, news(), "its rollback is due")
	require.NoError(t, h.exec(t, cancel, int64(failed.ID)))
	require.Zero(t, news(), "and stays as it is")
	id := h.Insert(t, store.EnqueueRequest{Type: "x", In: time.Hour})[0]
	news()
	require.NoError(t, h.exec(t, cancel, int64(id)))
	require.Zero(t, news(), "no agent has anything to do")
}
