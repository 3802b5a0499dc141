package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// moved makes all steps of a move of what waits of the type old to the type new.
func (h *harness) moved(t *testing.T) (changed int, left []store.OrphanLeft) {
	t.Helper()
	o := store.OrphanStep{Type: "old", Into: "new"}
	for range 10 {
		one, err := h.MoveOrphans(t.Context(), o)
		require.NoError(t, err)
		changed, left, o.From = changed+one.Changed, append(left, one.Left...), one.Next
		if one.Done {
			return changed, left
		}
	}
	require.Fail(t, "it has no end")
	return 0, nil
}

// A key that another transaction is about to insert under the new type keeps its row, and its sequence, and nothing else.
func TestAMoveWaitsForNoInserter(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	rows := h.Insert(t, store.EnqueueRequest{Type: "old", Key: "k"}, store.EnqueueRequest{Type: "old", Key: "l"}, store.EnqueueRequest{Type: "old"},
		store.EnqueueRequest{Type: "old", Sequence: "s"}, store.EnqueueRequest{Type: "old", Sequence: "s", Key: "m"},
		store.EnqueueRequest{Type: "old", Sequence: "r", Key: "n"})
	tx := h.application(t, pgx.ReadCommitted)
	_, err := tx.Exec(t.Context(), h.q(`INSERT INTO SCHEMA.task (type, key) VALUES ('new', 'k'), ('new', 'm')`))
	require.NoError(t, err)
	changed, left := h.moved(t)
	require.Equal(t, 3, changed)
	require.Equal(t, []store.OrphanLeft{
		{ID: rows[0], Reason: store.OrphanBusy, Rows: 1}, {ID: rows[3], Sequence: "s", Reason: store.OrphanBusy, Rows: 2},
	}, left)
	require.NoError(t, tx.Commit(t.Context()))
	changed, left = h.moved(t)
	require.Zero(t, changed)
	require.Equal(t, []store.OrphanLeft{
		{ID: rows[0], Reason: store.OrphanKey, Rows: 1}, {ID: rows[4], Sequence: "s", Reason: store.OrphanKey, Rows: 2},
	}, left)
	require.EqualValues(t, 3, h.number(t, `SELECT count(*) FROM SCHEMA.task WHERE type = 'old'`))
}

// A follower that another transaction is about to insert keeps its live row where it is: it would follow none.
func TestAMoveLosesNoFollower(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	live := h.Insert(t, store.EnqueueRequest{Type: "old", Key: "k"})[0]
	tx, follower := h.enqueuing(t, store.EnqueueRequest{Type: "old", Key: "k", OnLive: store.OnLiveAgain}, store.EnqueuedFollows)
	changed, left := h.moved(t)
	require.Zero(t, changed)
	require.Equal(t, []store.OrphanLeft{{ID: live, Reason: store.OrphanBusy, Rows: 1}}, left)
	require.NoError(t, tx.Commit(t.Context()))
	changed, _ = h.moved(t)
	require.Equal(t, 1, changed)
	for _, id := range []task.ID{live, follower} {
		info, err := h.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, "new", info.Type)
	}
}

// A bound on payloads that has been lowered since keeps no row from being moved.
func TestAMoveOfLargePayloads(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, `INSERT INTO SCHEMA.task (type, key, payload)
		SELECT 'old', 'k', jsonb_build_object('a', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 9000) AS n))`)
	_, answer, err := h.Enqueue(t.Context(), store.EnqueueRequest{Type: "old", Key: "k", OnLive: store.OnLiveAgain})
	require.NoError(t, err)
	require.Equal(t, store.EnqueuedFollows, answer)
	h.exec(t, `UPDATE SCHEMA.follow SET payload = (SELECT payload FROM SCHEMA.task)`)
	h.exec(t, `SELECT SCHEMA.set_max_payload(131072)`)
	changed, left := h.moved(t)
	require.Equal(t, 1, changed)
	require.Empty(t, left)
	require.EqualValues(t, 1, h.number(t, `SELECT count(*) FROM SCHEMA.follow WHERE type = 'new'`))
}
