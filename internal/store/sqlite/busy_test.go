package sqlite

import (
	"context"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// An application that keeps a transaction open for writing blocks every other writer: that is the cost of one writer. It must end
// in words, within the bound, and leave nothing behind.
func TestAnOpenTransactionStallsWritersWithinTheBound(t *testing.T) {
	t.Parallel()
	const bound = 300 * time.Millisecond
	path := filepath.Join(t.TempDir(), "store.db")
	s := open(t, Options{Path: path, Create: true, Busy: bound})
	_, err := s.Migrator().Up(t.Context())
	require.NoError(t, err)
	session, err := s.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
	require.NoError(t, err)
	id, _, err := s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
	require.NoError(t, err)

	app := application(t, path)
	tx, err := app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO task (type) VALUES ('x')")
	require.NoError(t, err)

	start := time.Now()
	_, err = s.Claim(t.Context(), claimOf(session, 1))
	require.ErrorContains(t, err, "claim tasks: store "+path)
	require.ErrorContains(t, err, "another program has kept the file locked for 300ms: its transaction must commit or roll back")
	require.GreaterOrEqual(t, time.Since(start), bound)
	require.Less(t, time.Since(start), bound+10*time.Second)

	var wg sync.WaitGroup // also those that wait behind the one that waits
	for range 5 {
		wg.Go(func() {
			_, _, err := s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
			if err == nil {
				t.Error("the file is locked")
			}
		})
	}
	wg.Wait()
	require.Less(t, time.Since(start), 2*bound+20*time.Second)

	info, err := s.Get(t.Context(), id)
	require.NoError(t, err, "reads go on")
	require.Equal(t, task.StatePending, info.State)
	_, ok, err := s.NextDue(t.Context(), claimOf(session, 1))
	require.NoError(t, err)
	require.True(t, ok)

	require.NoError(t, tx.Commit())
	tasks, err := s.Claim(t.Context(), claimOf(session, 2))
	require.NoError(t, err)
	require.Len(t, tasks, 2, "and all goes on: the row from before, and the application's own")
}

func TestWaitingForTheLockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	_, _, err = h.Enqueue(ctx, store.EnqueueRequest{Type: "x"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "while another program kept the file locked")
	require.Less(t, time.Since(start), DefaultBusy)
}

func TestACallThatWasCancelledDoesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := h.Enqueue(ctx, store.EnqueueRequest{Type: "x"})
	require.ErrorIs(t, err, context.Canceled)
	_, err = h.Get(ctx, 1)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 0, h.count(t, "SELECT count(*) FROM task"))
}

// Ten writers of which none is patient: everyone gets a turn.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const writers, each = 5, 20
	var wg sync.WaitGroup
	for range writers {
		other := open(t, Options{Path: h.path})
		for _, s := range []*Store{h.Store, other} {
			wg.Go(func() {
				for range each {
					if _, _, err := s.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.Equal(t, 2*writers*each, h.count(t, "SELECT count(*) FROM task"))
}

// A store that writes all the time must leave others their turns: another agent's store, and an application that waits
// with SQLite's own patience, which looks only every 100 ms.
func TestABusyStoreLeavesOthersTheirTurn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	other := open(t, Options{Path: h.path})
	ctx, cancel := context.WithCancel(t.Context())
	var turns atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			err := h.update(ctx, "hog", func(*tx) error {
				for start := time.Now(); time.Since(start) < 5*time.Millisecond; {
					runtime.Gosched()
				}
				return nil
			})
			if err != nil && ctx.Err() == nil {
				ended <- err
				return
			}
			turns.Add(1)
		}
		ended <- nil
	}()
	start := time.Now()
	for n := 0; n < 20 || turns.Load() < 20; n++ { // both sides get on
		require.Less(t, time.Since(start), time.Minute)
		_, _, err := other.Enqueue(t.Context(), store.EnqueueRequest{Type: "x"})
		require.NoError(t, err)
		require.NoError(t, h.exec(t, "INSERT INTO task (type) VALUES ('x')"))
	}
	cancel()
	require.NoError(t, <-ended)
}
