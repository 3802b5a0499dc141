//go:build bench

package lookbench_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/sqlite"
)

const days = 7 // of the archive

// What a row is, by its number n of so many: expressions that both databases know. Nearly all succeed; a tenth is of batch 1, in the
// middle; a tenth has a label of one of a thousand tenants, and a twentieth the same key; one of the oldest has a label of its own.
var finishedRow = strings.NewReplacer(
	"TYPE", "CASE WHEN n % 100000 = 7 THEN 'rare' WHEN n % 100 < 10 AND n % 100 <> 5 THEN 'mail' ELSE 'bulk' END",
	"STATE", "CASE WHEN n % 100000 = 5 THEN 'cancelled' WHEN n % 100 = 5 THEN 'failed' ELSE 'succeeded' END",
	"LABELS", `CASE WHEN n = 7 THEN '{"find": "me"}' WHEN n % 10 = 0 THEN '{"tenant": "t' || (n % 1000) || '"}' END`,
	"KEY", "CASE WHEN n % 20 = 1 THEN 'again' WHEN n % 10 = 0 THEN 'k' || n END",
	"BATCH", "CASE WHEN n > MANY / 2 AND n <= MANY / 2 + MANY / 10 THEN 1 WHEN n <= 20 THEN 2 END",
	"ERROR", "CASE WHEN n % 100000 = 105 THEN 'no such account: ' || n WHEN n % 100 = 5 THEN 'HTTP 502 from billing, request ' || n END",
)

var waitingRow = strings.NewReplacer(
	"TYPE", "CASE WHEN n <= 30 THEN 'first' WHEN n % 100 < 50 THEN 'bulk' WHEN n % 100 < 80 THEN 'mail' "+
		"WHEN n % 100 < 90 THEN 'undeclared' ELSE 'other' || (n % 10) END",
	"STATE", "CASE WHEN n = 31 THEN 'running' WHEN n % 100000 = 50 THEN 'retry_pending' ELSE 'pending' END",
	"TENANT", "CASE WHEN n % 100 >= 75 AND n % 100 < 80 THEN 'tenant' || (n % 977) END",
	"PRIORITY", "(n % 3) - 1",
)

const (
	archived = `INSERT INTO PREFIX task_archive (id, type, state, priority, run_at, payload, created_at, attempt, deferrals, ever_started,
	fence, session, claim, policy, claimed_at, started_at, finished_at, error, labels, key, batch_id)
	SELECT n, TYPE, STATE, 0, @AT, '{"n": 1}', @AT, 1, 0, YES, 2, 1, n / 1000, 1, @AT, @AT, @AT, ERROR, LABELS, KEY, BATCH FROM NUMBERS`
	waiting = `INSERT INTO PREFIX task (id, type, state, priority, run_at, created_at, payload, tenant) OVERRIDE
	SELECT MANY + n, TYPE, STATE, PRIORITY, @AT, @AT, '{"n": 1}', TENANT FROM NUMBERS`
	ordered = `INSERT INTO PREFIX task (type, sequence, held) SELECT 'ordered', 's' || (n % 1000), CASE WHEN n > 1000 THEN 'sequence' END FROM NUMBERS`
	batches = `INSERT INTO PREFIX batch (name, sealed) VALUES ('many', FALSE), ('few', FALSE)`
	totals  = `UPDATE PREFIX batch SET total = CASE id WHEN 1 THEN MANY / 10 ELSE 20 END, failed = CASE id WHEN 1 THEN MANY / 1000 ELSE 0 END,
	succeeded = CASE id WHEN 1 THEN MANY / 10 - MANY / 1000 ELSE 20 END`
	spans = `UPDATE PREFIX batch SET first_id = CASE id WHEN 1 THEN MANY / 2 + 1 ELSE 1 END,
	last_id = CASE id WHEN 1 THEN MANY / 2 + MANY / 10 ELSE 20 END`
)

func TestPostgres(t *testing.T) {
	n, url := finished(t), os.Getenv("LEASEHOLD_TEST_POSTGRES")
	s, err := postgres.Open(t.Context(), postgres.Options{URL: url, Schema: "lookbench"})
	require.NoError(t, err)
	defer s.Close()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	var there bool
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT to_regclass('lookbench.batch') IS NOT NULL").Scan(&there))
	if !there {
		began := time.Now()
		_, err = s.Migrator().Up(t.Context())
		require.NoError(t, err)
		fillPostgres(t, conn, n)
		active(t, s)
		t.Logf("filled in %s", time.Since(began).Round(time.Second))
	}
	var size float64
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('lookbench.task_archive')`).Scan(&size))
	t.Logf("%.0f bytes a finished task, indexes included", size/float64(n))
	join(t, s)
	measure(t, s, n)
	measurePages(t, s, n)
}

func fillPostgres(t *testing.T, conn *pgx.Conn, n int) {
	t.Helper()
	exec := func(text string, row *strings.Replacer, numbers int, at string) {
		if row != nil {
			text = row.Replace(text)
		}
		text = strings.NewReplacer("PREFIX ", "lookbench.", "OVERRIDE", "OVERRIDING SYSTEM VALUE", "MANY", fmt.Sprint(n), "YES", "true",
			"NUMBERS", fmt.Sprintf("generate_series(1, %d) AS n", numbers), "@AT", at,
			"'{\"n\": 1}'", "'{\"n\": 1}'::jsonb").Replace(text)
		_, err := conn.Exec(t.Context(), text)
		require.NoError(t, err, text)
	}
	for day := range days {
		exec(fmt.Sprintf(`DO $$ DECLARE day date := (now() AT TIME ZONE 'UTC')::date - %d; BEGIN
			EXECUTE format('CREATE TABLE IF NOT EXISTS lookbench.%%I PARTITION OF lookbench.task_archive FOR VALUES FROM (%%L) TO (%%L)',
			'task_archive_' || to_char(day, 'YYYYMMDD'), day || ' 00:00:00+00', day + 1 || ' 00:00:00+00'); END $$`, day), nil, 0, "")
	}
	ago := fmt.Sprintf("date_trunc('day', now(), 'UTC') + interval '1 second' - (%d - n) * interval '%f s'", n, float64((days-1)*86400-60)/float64(n))
	exec(batches, nil, 0, "")
	exec(strings.Replace(archived, "LABELS, KEY", "(LABELS)::jsonb, KEY", 1), finishedRow, n, ago)
	exec(waiting, waitingRow, n/10, fmt.Sprintf("now() - (%d - n) * interval '1 ms'", n/10))
	exec(fmt.Sprintf("SELECT setval(pg_get_serial_sequence('lookbench.task', 'id'), %d)", n+n/10+1), nil, 0, "")
	exec(ordered, nil, max(5000, n/100), "")
	exec(totals, nil, 0, "")
	exec(spans, nil, 0, "")
	exec("VACUUM ANALYZE", nil, 0, "")
}

func TestSQLite(t *testing.T) {
	n, dir := finished(t), os.Getenv("LOOKBENCH_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	path := filepath.Join(dir, "lookbench.db")
	_, err := os.Stat(path)
	there := err == nil
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Create: true})
	require.NoError(t, err)
	defer s.Close()
	if !there {
		began := time.Now()
		_, err = s.Migrator().Up(t.Context())
		require.NoError(t, err)
		fillSQLite(t, path, n)
		active(t, s)
		t.Logf("filled in %s", time.Since(began).Round(time.Second))
	}
	join(t, s)
	measure(t, s, n)
	measurePages(t, s, n)
}

func fillSQLite(t *testing.T, path string, n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)&_pragma=busy_timeout(60000)&_pragma=cache_size(-200000)")
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	defer func() { require.NoError(t, db.Close()) }()
	exec := func(text string, row *strings.Replacer, from, through int, at string) {
		if row != nil {
			text = row.Replace(text)
		}
		text = strings.NewReplacer("PREFIX ", "", "OVERRIDE", "", "MANY", fmt.Sprint(n), "YES", "1", "NUMBERS",
			fmt.Sprintf("(WITH RECURSIVE s (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM s WHERE n < %d) SELECT n FROM s)", from, through),
			"@AT", at).Replace(text)
		_, err := db.ExecContext(t.Context(), text)
		require.NoError(t, err, text)
	}
	const step = 500_000 // rows of a transaction
	stamp := func(before string) string {
		return "strftime('%Y-%m-%dT%H:%M:%fZ', julianday('now') - " + before + ")"
	}
	exec(batches, nil, 0, 0, "")
	for from := 1; from <= n; from += step {
		exec(archived, finishedRow, from, min(from+step-1, n), stamp(fmt.Sprintf("%d.0 * (%d - n) / %d", days-1, n, n)))
	}
	for from := 1; from <= n/10; from += step {
		exec(waiting, waitingRow, from, min(from+step-1, n/10), stamp(fmt.Sprintf("(%d - n) / 86400000.0", n/10)))
	}
	exec(ordered, nil, 1, max(5000, n/100), "")
	exec(totals, nil, 0, 0, "")
}
