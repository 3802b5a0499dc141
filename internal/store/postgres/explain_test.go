package postgres_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

const week = 7 * 24 * time.Hour

// plain is how a connection is made where a pooler refuses our settings; ours is how it is made else.
var settings = map[string]string{
	"ours":  `SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off`,
	"plain": `SET plan_cache_mode = force_generic_plan`,
}

// fill puts rows into every table: 120,000 that wait, some thousands that run, 120,000 that are finished.
const fill = `
INSERT INTO SCHEMA.task (type, priority, run_at, payload)
    SELECT 'type' || n % 7, n % 5 - 2, now() - n * interval '1 second', '{"some": "payload"}'
    FROM generate_series(1, 125000) AS n;
INSERT INTO SCHEMA.task (type, priority, run_at, tenant)
    SELECT 'type' || n % 7, n % 5 - 2, now() - n * interval '1 second', 'tenant' || n % 1000
    FROM generate_series(1, 30000) AS n;
UPDATE SCHEMA.task SET state = 'running', session = id % 4, fence = 1, claim = 1,
    lease_until = now() + interval '1 minute' WHERE id % 25 = 0;
INSERT INTO SCHEMA.task_archive (id, run_at, created_at, finished_at, fence, session, attempt, deferrals, priority,
                                 ever_started, state, type, payload)
    SELECT 1000000 + n, now(), current_timestamp, now() - (n % 2) * interval '1 day', 2, 1, 1, 0, 0, true, 'succeeded', 'type1',
        '{}'
    FROM generate_series(1, 120000) AS n;
INSERT INTO SCHEMA.attempt (task_id, fence, ran_fence, session, ended_at, attempt, phase, outcome, state)
    SELECT n, 1, 1, 1, now(), 1, 'run', 'failed', 'retry_pending' FROM generate_series(1, 100000) AS n;
`

func TestNoCallReadsATable(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	h.exec(t, fill)
	statements := h.Statements()
	maps.Copy(statements, h.RemovalStatements(h.Now()))
	lists, err := h.ListStatements()
	require.NoError(t, err)
	maps.Copy(statements, lists)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task; ANALYZE SCHEMA.task_archive; ANALYZE SCHEMA.attempt`)
		}
		for how, set := range settings {
			conn := planner(t, set)
			for name, text := range statements {
				plan := explain(t, conn, text)
				for _, table := range []string{"task", "task_archive", "attempt"} {
					// Nothing is cheaper than to read a partition that has no page yet.
					require.NotRegexp(t, `Seq Scan on `+table+`(_\d+)?\b.*cost=0.00..\d*[1-9]`, plan,
						"%s, %s, analysed %v", name, how, analysed)
				}
				if strings.Contains(name, "tenant") {
					require.Contains(t, plan, "task_tenant", name)
					require.NotContains(t, plan, "task_due", name)
					require.NotRegexp(t, `Bitmap Index Scan on task_tenant`, plan, "%s: it would be read whole and sorted", name)
					continue
				}
				if strings.HasPrefix(name, "claim") && name != "claimed" {
					require.Contains(t, plan, "task_due", name)
					require.Equal(t, strings.HasSuffix(name, "_both"), strings.Contains(plan, "task_rollback"), name)
					require.NotRegexp(t, `Bitmap Index Scan on task_(due|rollback)`, plan, "%s: it would be read whole and sorted", name)
				}
			}
		}
	}
}

// planner gives a connection with some settings. One is for many statements: a new one reads the catalog anew.
func planner(t *testing.T, set string) *pgx.Conn {
	t.Helper()
	conn := pgtest.Connect(t)
	_, err := conn.Exec(t.Context(), set)
	require.NoError(t, err)
	return conn
}

// explain gives the generic plan of a statement.
func explain(t *testing.T, conn *pgx.Conn, text string) string {
	t.Helper()
	statement, err := conn.Prepare(t.Context(), "hot", text)
	require.NoError(t, err, text)
	execute := "EXPLAIN EXECUTE hot"
	if n := len(statement.ParamOIDs); n > 0 {
		execute += "(NULL" + strings.Repeat(", NULL", n-1) + ")"
	}
	rows, err := conn.Query(t.Context(), execute, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NoError(t, conn.Deallocate(t.Context(), "hot"))
	if testing.Verbose() {
		t.Logf("%s\n%s", text, strings.Join(lines, "\n"))
	}
	return strings.Join(lines, "\n")
}
