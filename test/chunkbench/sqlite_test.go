//go:build linux && bench

package chunkbench_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"
)

// inFile is how far a pass in a file is: its chunks, whether it is planned to its end, and how many of its tasks are live.
const inFile = `SELECT coalesce(s.chunks, 0), s.sealed_at IS NOT NULL, (SELECT count(*) FROM task)
FROM chunk_plan AS p LEFT JOIN chunk_pass AS s ON s.plan = p.name AND s.pass = 1`

// TestPlanningInSQLite cuts a table in the store's own file, which each write locks: how fast, whether workers wait for planning, and
// whether the last tenth of a pass takes longer than the first.
func TestPlanningInSQLite(t *testing.T) {
	const rows, size, chunks = 1_000_000, 100, 10_000
	file := filepath.Join(t.TempDir(), "leasehold.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)")
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	for _, text := range []string{
		`CREATE TABLE event (id INTEGER PRIMARY KEY, status INTEGER NOT NULL, body TEXT NOT NULL)`,
		fmt.Sprintf(`WITH RECURSIVE g (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM g WHERE n < %d)
			INSERT INTO event SELECT n, 0, printf('%%040d', n) FROM g`, rows),
	} {
		_, err := db.ExecContext(t.Context(), text)
		require.NoError(t, err)
	}
	r := &rig{t: t, url: "sqlite:" + file}
	r.hook = waits(t, &r.ended)
	agent := r.agent(size, 128, "")
	var began, first, ninth, end time.Time
	var short time.Duration
	mark := func(into *time.Time, reached bool, now time.Time) {
		if reached && into.IsZero() {
			*into = now
		}
	}
	last := time.Now()
	r.every(func() bool {
		var planned, live int
		var sealed bool
		now := time.Now()
		if db.QueryRowContext(t.Context(), inFile).Scan(&planned, &sealed, &live) != nil {
			return false // it is not migrated yet, or has no plan
		}
		if !began.IsZero() && !sealed && live < workers {
			short += now.Sub(last)
		}
		last = now
		mark(&began, live >= workers, now)
		mark(&first, planned >= chunks/10, now)
		mark(&ninth, planned >= chunks/10*9, now)
		mark(&end, sealed, now)
		return sealed && live == 0
	})
	took, tenth := end.Sub(began), end.Sub(ninth)
	t.Logf("%d chunks in %.1f s, %.0f chunks/s, fewer than %d live for %.2f%% of the time; first tenth %.2f s, last %.2f s; agent's peak %.1f MiB",
		chunks, took.Seconds(), chunks/took.Seconds(), workers, 100*short.Seconds()/took.Seconds(), first.Sub(began).Seconds(),
		tenth.Seconds(), r.peak(agent))
	require.Less(t, short, took/100)
	agent.Drain(t)
}
