package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestFollowersReadNoTable does all that is done with followers on large tables, by plans that were made when these were empty and by
// new ones.
func TestFollowersReadNoTable(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	conn := pgtest.Connect(t)
	calls := map[string]string{
		"inserted":       `SELECT SCHEMA.enqueue_result('a', key => 'new', on_live => 'again')`,
		"kept":           `SELECT SCHEMA.enqueue_result('a', key => 'k1')`,
		"replaced":       `SELECT SCHEMA.enqueue('a', key => 'k2', on_live => 'replace')`,
		"debounced":      `SELECT SCHEMA.enqueue('a', key => 'k2', debounce => '1 minute', debounce_max => '1 hour')`,
		"follows":        `SELECT SCHEMA.enqueue('a', key => 'k3', on_live => 'again')`,
		"follows, later": `SELECT SCHEMA.enqueue('a', key => 'k4', on_live => 'replace')`,
		"looked at":      `SELECT state, follows FROM SCHEMA.tasks WHERE id = (SELECT f.id FROM SCHEMA.follow AS f WHERE f.type = 'a' AND f.key = 'k4')`,
		"cancelled":      `SELECT SCHEMA.cancel((SELECT f.id FROM SCHEMA.follow AS f WHERE f.type = 'a' AND f.key = 'k4'))`,
		"live cancelled": `SELECT SCHEMA.cancel((SELECT t.id FROM SCHEMA.task AS t WHERE t.type = 'a' AND t.key = 'k4'))`,
		"completed": `SELECT SCHEMA.complete(t.id, t.fence) FROM (SELECT r.id, r.fence FROM SCHEMA.task AS r
			WHERE r.type = 'a' AND r.key = 'k8' LIMIT 1) AS t`,
	}
	call := func() {
		t.Helper()
		for name, text := range calls {
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), `SET LOCAL enable_seqscan = off`) // of the call itself
			require.NoError(t, err)
			reads := func() (n int64) { // the counters have those of transactions just before, too
				require.NoError(t, tx.QueryRow(t.Context(), h.q(`SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables
					WHERE schemaname = 'SCHEMA' AND (relname LIKE 'task%' OR relname = 'follow')`)).Scan(&n))
				return n
			}
			before := reads()
			_, err = tx.Exec(t.Context(), h.q(text))
			require.NoError(t, err, name)
			require.Less(t, reads()-before, int64(50), "%s reads whole tables", name)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
	fillKeyed(t, h, 1, 8)
	for range 7 { // past the fifth, plans are kept
		call()
	}
	fillKeyed(t, h, 9, 60_000)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task; ANALYZE SCHEMA.follow`)
		}
		for range 7 {
			call()
		}
		conn = pgtest.Connect(t)
	}
	settlesByLookups(t, h)
}

// fillKeyed inserts rows with keys. Every fourth has a follower, every eighth runs.
func fillKeyed(t *testing.T, h *harness, from, to int) {
	t.Helper()
	conn := pgtest.Connect(t)
	for _, text := range []string{
		`INSERT INTO SCHEMA.task (type, key) SELECT 'a', 'k' || n FROM generate_series($1::int, $2::int) AS n`,
		`INSERT INTO SCHEMA.follow (id, type, key) SELECT 10000000 + n, 'a', 'k' || n FROM generate_series($1::int, $2::int) AS n WHERE n % 4 = 0`,
		`UPDATE SCHEMA.task AS t SET state = 'running', session = 99, claim = 1, fence = 1, attempt = 1, claimed_at = now(),
			lease_until = now() + '1 hour' FROM generate_series($1::int, $2::int) AS n WHERE t.key = 'k' || n AND n % 8 = 0`,
	} {
		_, err := conn.Exec(t.Context(), h.q(text), from, to)
		require.NoError(t, err)
	}
}

// settlesByLookups settles rows that have followers.
func settlesByLookups(t *testing.T, h *harness) {
	t.Helper()
	reads := func() int64 {
		require.NoError(t, h.Flush(t.Context()))
		return h.number(t, `SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
			WHERE schemaname = 'SCHEMA' AND (relname LIKE 'task%' OR relname = 'follow')`)
	}
	rows, err := h.Claimed(t.Context(), 99, 1)
	require.NoError(t, err)
	require.Greater(t, len(rows), 5000)
	before := reads()
	var ends []store.Settlement
	for _, row := range rows[:200] {
		ends = append(ends, done(row))
	}
	answers, err := h.Settle(t.Context(), 99, ends)
	require.NoError(t, err)
	require.Equal(t, all(len(ends), store.Applied), answers)
	require.Less(t, reads()-before, int64(10*len(ends)))
	require.EqualValues(t, 15_000-200, h.number(t, `SELECT count(*) FROM SCHEMA.follow`))
}
