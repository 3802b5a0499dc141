package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// fillBatches puts in two batches among rows of none: 1, of which 20,000 rows wait, some run and some are being undone; 2,
// which has ended, with 20,000 rows in the archive, some of them failed.
const fillBatches = `
INSERT INTO SCHEMA.policy (hash, type, body) VALUES (4711, 'a', '{"rollback": {}}');
INSERT INTO SCHEMA.batch (sealed) VALUES (false), (false);
INSERT INTO SCHEMA.task (type) SELECT 'a' FROM generate_series(1, 20000);
INSERT INTO SCHEMA.task (type, batch_id) SELECT 'a', 1 FROM generate_series(1, 20000);
UPDATE SCHEMA.task SET state = 'running', session = 1, fence = 1, claim = 1, lease_until = now() + interval '1 minute',
    ever_started = true, policy = 4711 WHERE batch_id = 1 AND id % 400 = 0;
UPDATE SCHEMA.task SET state = 'rollback_pending', cause = 'failed', ever_started = true, policy = 4711
    WHERE batch_id = 1 AND id % 400 = 1;
INSERT INTO SCHEMA.task_archive (id, run_at, created_at, started_at, finished_at, fence, session, attempt, deferrals,
        priority, ever_started, state, type, payload, batch_id, policy)
    SELECT 1000000 + n, now(), current_timestamp, now() - n * interval '1 millisecond', now() - (n % 2) * interval '1 day', 2, 1, 1, 0, 0,
        true, CASE n % 400 WHEN 0 THEN 'failed' ELSE 'succeeded' END, 'a', '{}', CASE WHEN n % 3 > 0 THEN 2 END, 4711
    FROM generate_series(1, 30000) AS n;
INSERT INTO SCHEMA.batch_delta (batch_id, total, succeeded, failed) VALUES (2, 20000, 19950, 50);
UPDATE SCHEMA.batch SET sealed = true, ended_at = now() WHERE id = 2;
`

// TestWorkOnBatchesReadsNoTable calls everything that is done with batches on large tables.
func TestWorkOnBatchesReadsNoTable(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	conn := pgtest.Connect(t)
	// Each is a transaction that is taken back. Steps take some rows of each kind; the setting is for
	// how these are found here.
	const step = `SET LOCAL enable_seqscan = off; SELECT SCHEMA.apply_step(o.id, o.version, was_missed => false,
		was_at => NULL, was_id => NULL, was_goal => 0, was_taken => 0, was_refused => 0, who => 'alice', %s, %s, %s, %s)
		FROM SCHEMA.operation AS o`
	const running, waiting, none = `SELECT id FROM SCHEMA.task WHERE session = 1 AND state IN ('running', 'rollback_running') LIMIT 50`,
		`SELECT id FROM SCHEMA.task WHERE batch_id = 1 AND state IN ('pending', 'retry_pending') LIMIT 500`, `SELECT 1::bigint LIMIT 0`
	stepOf := func(ask, cancel string, revived []string, flags string) string {
		list := func(ids, of string) string { return `ARRAY(SELECT ` + of + ` FROM (` + ids + `) AS i (id))` }
		revive := `ARRAY[` + strings.Join(revived, ", ") + `]::bigint[]`
		return fmt.Sprintf(step, `ask => `+list(ask, "id")+`, ask_fences => `+list(ask, "1::bigint"),
			`cancels => `+list(cancel, "id")+`, cancel_fences => `+list(cancel, "0::bigint")+`, cancel_rolls_back => `+list(cancel, "id % 2 = 0"),
			`revives => `+revive+`, revive_fences => array_fill(2::bigint, ARRAY[cardinality(`+revive+`)]),
			revive_dues => array_fill(now(), ARRAY[cardinality(`+revive+`)])`, flags)
	}
	const fold = `SELECT SCHEMA.apply_fold(ARRAY[s.id], ARRAY[s.round], ARRAY[s.version], ARRAY['%s']) FROM SCHEMA.sum_batches(100) AS s`
	calls := []string{
		`SELECT SCHEMA.cancel_batch(1); ` + stepOf(running, waiting, nil, "reopens => false, stops => true, ends => true"),
		`SELECT SCHEMA.rollback_batch(2); ` + stepOf(none, none, []string{"1000400", "1000403", "1000404"}, "reopens => false, stops => false, ends => true"),
		`SELECT SCHEMA.retry_batch(2); ` + stepOf(none, none, []string{"1000400", "1000800"}, "reopens => false, stops => false, ends => true"),
		`SELECT SCHEMA.retry(1000400); SELECT SCHEMA.rollback(1000401); SELECT SCHEMA.rollback(1000402)`,
		`SELECT SCHEMA.rollback(id) FROM SCHEMA.task WHERE state IN ('running', 'rollback_running') AND state = 'running' LIMIT 1;
			` + stepOf(none, none, []string{"1000403"}, "reopens => true, stops => false, ends => true"),
		`SELECT SCHEMA.sum_batches(100)`,
		`SELECT SCHEMA.seal_batch(1); SELECT SCHEMA.sum_batches(100)`,
		`UPDATE SCHEMA.batch SET on_failure = 'rollback' WHERE id = 1; ` + fmt.Sprintf(fold, "follow"),
		`SELECT SCHEMA.cancel_batch(1); UPDATE SCHEMA.operation SET ended_at = now(); ` + fmt.Sprintf(fold, "resume"),
		`UPDATE SCHEMA.batch SET finish_type = 'a' WHERE id = 1; ` + fmt.Sprintf(fold, "end"),
		`SELECT * FROM SCHEMA.batches WHERE id = 1`,
		`SELECT * FROM SCHEMA.batches WHERE id = 2`,
		`INSERT INTO SCHEMA.task (type, batch_id) VALUES ('a', 1)`,
	}
	check := func() {
		for _, text := range calls {
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), h.q(text))
			require.NoError(t, err, text)
			var read []string
			require.NoError(t, tx.QueryRow(t.Context(), h.q(`SELECT coalesce(array_agg(relname::text), '{}')
				FROM pg_stat_xact_user_tables WHERE schemaname = 'SCHEMA' AND seq_scan > 0
				AND (relname LIKE 'task%' OR relname = 'attempt')`)).Scan(&read))
			require.Empty(t, read, "%s reads whole tables", text)
			require.NoError(t, tx.Rollback(t.Context()))
		}
	}
	h.exec(t, fillBatches)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task; ANALYZE SCHEMA.task_archive; ANALYZE SCHEMA.batch; ANALYZE SCHEMA.batch_delta`)
		}
		for range 2 {
			check()
		}
	}
	statements, err := h.BatchStatements()
	require.NoError(t, err)
	for how, set := range settings {
		conn := planner(t, set)
		for name, text := range statements {
			tables := `task|task_archive_\d+|attempt`
			if name == "list tasks" {
				tables = `task` // it reads all that is finished of a batch, which can be most of the archive
			}
			plan := explain(t, conn, text)
			require.NotRegexp(t, `Seq Scan on (`+tables+`)\b.*cost=0.00..\d*[1-9]`, plan, "%s, %s", name, how)
			if index := batchIndexes[name]; index != "" {
				require.Regexp(t, h.partsOf(t, index), plan, "%s, %s: %s does not cover what it looks for", name, how, index)
			}
		}
	}
	// What retry_batch looks for is in that index, too: it reads no task that succeeded, and at most all 50 that failed, by a
	// bitmap of them, beside a few other rows.
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	reads := func() (n int64) { // the counters have those of transactions just before, too
		require.NoError(t, tx.QueryRow(t.Context(), h.q(`SELECT coalesce(sum(idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables
			WHERE schemaname = 'SCHEMA' AND relname LIKE 'task_archive%'`)).Scan(&n))
		return n
	}
	before := reads()
	_, err = tx.Exec(t.Context(), h.q(`SELECT SCHEMA.retry_batch(2)`))
	require.NoError(t, err)
	read := reads() - before
	require.NoError(t, tx.Rollback(t.Context()))
	require.Positive(t, read)
	require.LessOrEqual(t, read, int64(60), "of 20,000")
}

// batchIndexes are the indexes whose condition or expression says again what a statement looks for, by the statement's name.
// Where the two differ, another index of the batch serves, and reads all of its tasks.
var batchIndexes = map[string]string{
	"failed": "task_archive_batch_failed", "failures": "task_archive_batch_failed", "finished": "task_archive_batch",
}

// partsOf returns a pattern for the names that an index of the archive has on its partitions.
func (h *harness) partsOf(t *testing.T, index string) string {
	t.Helper()
	var names []string
	require.NoError(t, pgtest.Connect(t).QueryRow(t.Context(), h.q(`SELECT array_agg(c.relname::text) FROM pg_inherits AS i
		JOIN pg_class AS c ON c.oid = i.inhrelid WHERE i.inhparent = 'SCHEMA.`+index+`'::regclass`)).Scan(&names))
	return `\b(` + strings.Join(names, "|") + `)\b`
}
