package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// busy reports whether a call has the turn.
func (q *queue) busy() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken
}

func TestQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q queue
		var mu sync.Mutex
		var order []string
		join := func(name string, u urgency) {
			go func() {
				p, err := q.enter(t.Context(), u)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				time.Sleep(time.Second)
				p.leave()
				p.leave() // it does nothing
			}()
			synctest.Wait()
		}
		first, err := q.enter(t.Context(), ordinary)
		require.NoError(t, err)
		join("a", ordinary)
		join("b", ordinary)
		join("beat 1", pressing)
		join("beat 2", pressing)
		join("beat 3", pressing)
		require.NoError(t, first.letPass(t.Context()))
		mu.Lock()
		order = append(order, "again")
		mu.Unlock()
		first.leave()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"beat 1", "again", "beat 2", "a", "beat 3", "b"}, order)
		require.False(t, q.busy())
	})
}

func TestCallsThatGiveUpLeaveTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q queue
		first, err := q.enter(t.Context(), ordinary)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, u := range []urgency{ordinary, pressing} {
			_, err := q.enter(short, u)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.NoError(t, first.letPass(t.Context()), "none is left to let pass")

		go func() {
			p, err := q.enter(t.Context(), pressing)
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Minute)
			p.leave()
		}()
		synctest.Wait()
		brief, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		require.ErrorIs(t, first.letPass(brief), context.DeadlineExceeded)
		first.leave()
		require.True(t, q.busy(), "the turn is the other's, and not handed on twice")
		next, err := q.enter(t.Context(), ordinary)
		require.NoError(t, err)
		next.leave()
		require.False(t, q.busy())
	})
}

// An agent whose own claims wait for a locked file must not lose its session and its leases behind them.
func TestHeartbeatsAndRenewalsComeFirst(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	var ticks atomic.Int64 // each transaction reads the clock once
	start := time.Now()
	clock := func() time.Time { return start.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
	s := open(t, Options{Path: path, Create: true, Clock: clock, Busy: time.Minute})
	_, err := s.Migrator().Up(t.Context())
	require.NoError(t, err)
	agent := store.Agent{Name: "a", Presence: time.Hour}
	session, err := s.Join(t.Context(), agent)
	require.NoError(t, err)

	app := application(t, path)
	tx, err := app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO task (type) VALUES ('x')")
	require.NoError(t, err)
	waits := func(u urgency, n int) func() bool {
		return func() bool {
			s.write.queue.mu.Lock()
			defer s.write.queue.mu.Unlock()
			return len(s.write.queue.waiting[u]) == n
		}
	}
	var wg sync.WaitGroup
	ids := make([]task.ID, 5)
	for i := range ids {
		wg.Go(func() {
			var err error
			if ids[i], _, err = s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, waits(ordinary, 4), 10*time.Second, time.Millisecond, "one has the turn")
	var reply store.HeartbeatReply
	wg.Go(func() {
		var err error
		if reply, err = s.Present(t.Context(), store.Heartbeat{Session: session, Agent: agent}); err != nil {
			t.Error(err)
		}
	})
	require.Eventually(t, waits(ordinary, 5), 10*time.Second, time.Millisecond, "it has let the heartbeat pass")
	require.NoError(t, tx.Commit())
	wg.Wait()
	for _, id := range ids {
		info, err := s.Get(t.Context(), id)
		require.NoError(t, err)
		require.Greater(t, info.CreatedAt, reply.Now)
	}
}
