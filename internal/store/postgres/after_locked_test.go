package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// TestStepsDoNotWaitForApplications: an application's open transaction keeps a row that waits from ending, or changes a follower that is waited
// for. A step leaves these rows, and goes on with all others.
func TestStepsDoNotWaitForApplications(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keeps string // what the transaction does
		args  func(waits, follows task.ID) []any
		bad   bool // the follower is cancelled before, so that the row is to be cancelled
	}{
		"a row that is to be cancelled": {`SELECT FROM SCHEMA.task WHERE id = $1 FOR KEY SHARE`, func(waits, _ task.ID) []any { return []any{int64(waits)} }, true},
		"a follower":                    {`UPDATE SCHEMA.follow SET payload = '{}' WHERE id = $1`, func(_, follows task.ID) []any { return []any{int64(follows)} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			a := joined(t, h)
			rows := a.take(t, 2)
			again := store.EnqueueRequest{Type: "a", Key: "k", In: time.Hour}
			h.Insert(t, again)
			again.OnLive = store.OnLiveAgain
			follower, _, err := h.Enqueue(t.Context(), again)
			require.NoError(t, err)
			bad := task.ID(h.number(t, `INSERT INTO SCHEMA.task (type, after) VALUES ('a', ARRAY[$1::bigint, $2]) RETURNING id`, int64(rows[0].ID), int64(follower)))
			good := task.ID(h.number(t, `INSERT INTO SCHEMA.task (type, after) VALUES ('a', ARRAY[$1::bigint]) RETURNING id`, int64(rows[1].ID)))
			if c.bad {
				_, err := h.Cancel(t.Context(), follower, "")
				require.NoError(t, err)
			}
			a.settle(t, failedFor(rows[0]), done(rows[1]))

			app := pgtest.Connect(t)
			tx, err := app.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), h.q(c.keeps), c.args(bad, follower)...)
			require.NoError(t, err)
			began, freed := time.Now(), 0
			for range 6 {
				u, err := h.Unblock(t.Context(), 100)
				require.NoError(t, err)
				freed += u.Freed
			}
			require.Less(t, time.Since(began), 5*time.Second, "nothing waits for the transaction")
			require.Equal(t, 1, freed, "the other row that waits")
			require.Empty(t, held(t, h, good))
			require.Equal(t, task.HoldAfter, held(t, h, bad))
			require.NoError(t, tx.Commit(t.Context()))
		})
	}
}

// held is why a live row is held back.
func held(t *testing.T, h *harness, id task.ID) task.Hold {
	t.Helper()
	info, err := h.Get(t.Context(), id)
	require.NoError(t, err)
	return info.Held
}
