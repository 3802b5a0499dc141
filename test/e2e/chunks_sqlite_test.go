package e2e_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/leasehold/leasehold/test/harness"
)

// cabin is a store in a SQLite file, and an application's table of events in that file or in another.
type cabin struct {
	t          *testing.T
	store, app string // files
	kind       string // of the key
	poison     int64  // a range that has this key is rejected; 0: none

	db, admin *sql.DB // the application's, and the store's
	url       string  // of the processor
	requests  atomic.Int64
	leave     int64 // every tenth of so many requests at the beginning leaves its rows as they are, and succeeds
}

// newCabin makes the table and the processor of a cabin.
func newCabin(t *testing.T, c *cabin) *cabin {
	t.Helper()
	c.t = t
	c.db, c.admin = c.open(c.app), c.open(c.store)
	c.exec(`CREATE TABLE event (id ` + c.kind + ` NOT NULL PRIMARY KEY, status INTEGER NOT NULL DEFAULT 0)`)
	c.exec(`CREATE TABLE seen (n INTEGER PRIMARY KEY, id)`)
	c.exec(`CREATE TRIGGER mark AFTER UPDATE ON event BEGIN INSERT INTO seen (id) VALUES (new.id); END`)
	server := httptest.NewServer(http.HandlerFunc(c.process))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *cabin) open(file string) *sql.DB {
	c.t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)")
	require.NoError(c.t, err)
	db.SetMaxOpenConns(1)
	c.t.Cleanup(func() { require.NoError(c.t, db.Close()) })
	return db
}

// process runs the statements of docs/chunks.md, as they are for SQLite.
func (c *cabin) process(w http.ResponseWriter, r *http.Request) {
	first, other := chunkSQL(c.t, "key")
	var body struct {
		Data struct{ After, Through *string }
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Data.Through == nil {
		http.Error(w, "no range", http.StatusBadRequest)
		return
	}
	query, args := first, []any{*body.Data.Through}
	if body.Data.After != nil {
		query, args = other, []any{*body.Data.After, *body.Data.Through}
	}
	if c.poison > 0 && c.has(body.Data.After, body.Data.Through) {
		http.Error(w, "not this one", http.StatusUnprocessableEntity)
		return
	}
	if n := c.requests.Add(1); n <= c.leave && n%10 == 0 {
		return
	}
	for _, p := range []string{"$1", "$2"} {
		cast := p
		if strings.HasPrefix(c.kind, "INTEGER") {
			cast = "CAST(" + p + " AS INTEGER)"
		}
		query = strings.ReplaceAll(query, p+"::key", cast)
	}
	ctx, cancel := context.WithTimeout(r.Context(), sqlWithin)
	defer cancel()
	if _, err := c.db.ExecContext(ctx, query, args...); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// has reports whether a range of integers has the poison.
func (c *cabin) has(after, through *string) bool {
	end, err := strconv.ParseInt(*through, 10, 64)
	begin := int64(0)
	if err == nil && after != nil {
		begin, err = strconv.ParseInt(*after, 10, 64)
	}
	return err != nil || begin < c.poison && c.poison <= end
}

// exec runs SQL of the application.
func (c *cabin) exec(query string, args ...any) {
	c.t.Helper()
	_, err := c.db.ExecContext(c.t.Context(), query, args...)
	require.NoError(c.t, err, query)
}

// fill adds the events from n to m, but every seventh.
func (c *cabin) fill(key string, from, to int) {
	c.t.Helper()
	c.exec(`INSERT INTO event (id) WITH RECURSIVE g (n) AS (SELECT $1 UNION ALL SELECT n + 1 FROM g WHERE n < $2)
		SELECT `+key+` FROM g WHERE n % 7 <> 0`, from, to)
}

// number asks the application's file for a number, and planned the store's.
func (c *cabin) number(query string, args ...any) int64  { return ask(c.t, c.db, query, args...) }
func (c *cabin) planned(query string, args ...any) int64 { return ask(c.t, c.admin, query, args...) }

func ask(t *testing.T, db *sql.DB, query string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query, args...).Scan(&n), query)
	return n
}

func (c *cabin) left() int64 { return c.number(`SELECT EXISTS (SELECT 1 FROM event WHERE status = 0)`) }

// agent starts an agent. The source has no URL where the table is in the store's file.
func (c *cabin) agent(name string, size, ahead int, more string) *harness.Agent {
	c.t.Helper()
	return harness.StartAgent(c.t, harness.AgentOptions{
		Name: name, Store: "sqlite:" + c.store, Agent: "  workers = 8\n  presence = \"2s\"\n", Config: more + "\n" + c.config(size, ahead),
	})
}

// config declares the plan.
func (c *cabin) config(size, ahead int) string {
	source := ""
	if c.app != c.store {
		source = fmt.Sprintf("    url = \"sqlite:%s\"\n", c.app)
	}
	return fmt.Sprintf("task \"work\" {\n  webhook {\n    url = %q\n  }\n}\nchunks \"events\" {\n  task = \"work\"\n  source {\n%s"+
		"    table = \"event\"\n    key = \"id\"\n    where = \"status = 0\"\n  }\n  size = %d\n  ahead = %d\n  follow = \"1s\"\n}\n",
		c.url, source, size, ahead)
}

// TestChunksCoverATableInSQLite is TestChunksCoverATable with files: agents are killed and added while rows come in, some below the
// highest key, and some tasks leave their rows.
func TestChunksCoverATableInSQLite(t *testing.T) {
	t.Parallel()
	rows := harness.Sized(10_000, 300_000)
	for name, table := range map[string]struct {
		kind, key string
		together  bool // in the store's file
	}{
		"integer": {"INTEGER", `9007199254740000 + n * 3`, true},
		"text":    {"TEXT COLLATE NOCASE", `printf('%s%08x ü"', iif(n % 2, 'a', 'B'), n * 2654435761 % 4294967296)`, false},
		"uuid":    {"TEXT", `printf('%08x-0000-4000-8000-%012x', n * 2654435761 % 4294967296, n)`, false},
		"timestamp": {
			"TEXT", `strftime('%Y-%m-%dT%H:%M:%fZ', 1767225600 + n * 1.007, 'unixepoch')`, false,
		},
	} {
		if !worthAnAgent(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := filepath.Join(t.TempDir(), "leasehold.db")
			app := store
			if !table.together {
				app = filepath.Join(t.TempDir(), "events.db")
			}
			c := newCabin(t, &cabin{store: store, app: app, kind: table.kind, leave: 80})
			c.fill(table.key, rows/10, rows)
			start := func(n int) *harness.Agent { return c.agent(fmt.Sprintf("agent-%d", n), max(rows/200, 10), 16, "") }
			agents := []*harness.Agent{start(0), start(1)}
			seen := func() int64 { return c.number(`SELECT count(*) FROM seen`) }
			for step := range 2 {
				least := seen() + int64(rows/10)
				harness.Until(t, workWithin, "rows are marked", func() bool { return seen() >= least || c.left() == 0 })
				n := rand.IntN(len(agents))
				agents[n].Kill(t)
				c.fill(table.key, rows+step*rows/10+1, rows+(step+1)*rows/10)
				agents[n] = start(n)
				agents = append(agents, start(10+step))
			}
			c.fill(table.key, 1, rows/10-1)
			harness.Until(t, workWithin, "no row is left", func() bool { return c.left() == 0 })
			all := c.number(`SELECT count(*) FROM event`)
			require.Equal(t, all, seen())
			require.Equal(t, all, c.number(`SELECT count(DISTINCT id) FROM seen`), "each row is marked once")
			verified(t, "sqlite:"+store, c.config(10, 16), all)
			require.Zero(t, c.planned(`SELECT count(*) FROM (
				SELECT c.after_key, lag(c.through_key) OVER w AS before, row_number() OVER w AS n, s.from_key
				FROM chunk_range AS c JOIN chunk_pass AS s ON s.plan = c.plan AND s.pass = c.planned
				WHERE c.planned = 1 WINDOW w AS (ORDER BY c.task_id)
			) AS r WHERE r.after_key IS NOT CASE WHEN r.n = 1 THEN r.from_key ELSE r.before END`), "the first pass has no gap")
			require.Greater(t, c.planned(`SELECT count(*) FROM chunk_pass WHERE sealed_at IS NOT NULL`), int64(1))
			require.Zero(t, c.planned(`SELECT count(*) FROM tasks WHERE type = 'work' AND state = 'failed'`))
			t.Logf("%d rows, %d tasks, %d passes", all, c.planned(`SELECT count(*) FROM tasks`), c.planned(`SELECT pass FROM chunk_plan`))
		})
	}
}

// TestAFollowedPlanOutlivesItsTasks: when tasks and batches of a plan are past their retention, its chunks go with them, but the one
// that has failed too often. The ledger stays, and planning goes on.
func TestAFollowedPlanOutlivesItsTasks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "leasehold.db")
	c := newCabin(t, &cabin{store: file, app: file, kind: "INTEGER", poison: 100})
	c.fill("n", 1, 400)
	start := func(name string) *harness.Agent { return c.agent(name, 50, 64, "store {\n  retention = \"1s\"\n}") }
	first := start("first")
	failed := func() int64 { return c.planned(`SELECT count(*) FROM tasks WHERE state = 'failed'`) }
	harness.Until(t, workWithin, "a range has failed in three passes", func() bool { return failed() == 3 })
	harness.Until(t, workWithin, "all is past its retention", func() bool {
		return c.planned(`SELECT count(*) FROM batches
			WHERE ended_at IS NULL OR ended_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1.1 seconds')`) == 0
	})
	const ledger = `SELECT count(*) FROM chunk_pass WHERE chunks > 0 AND sealed_at IS NOT NULL`
	const planned = `SELECT sum(chunks) FROM chunk_pass`
	passes, chunks := c.planned(ledger), c.planned(planned)
	require.EqualValues(t, 3, passes)
	require.Equal(t, chunks, c.planned(`SELECT count(*) FROM chunk_range`))

	second := start("second") // it removes what is past its retention
	harness.Until(t, workWithin, "chunks, tasks and batches are removed", func() bool {
		return c.planned(`SELECT count(*) FROM chunk_range WHERE state <> 'failed'`)+
			c.planned(`SELECT count(*) FROM tasks`)+c.planned(`SELECT count(*) FROM batches`) == 0
	})
	require.EqualValues(t, 1, c.planned(`SELECT count(*) FROM chunk_range`))
	require.Equal(t, passes, c.planned(ledger))
	require.Equal(t, chunks, c.planned(planned))

	c.exec(`INSERT INTO event (id) VALUES (7), (1000)`) // one of them below the highest key
	harness.Until(t, workWithin, "planning goes on", func() bool {
		return c.number(`SELECT count(*) FROM event WHERE id IN (7, 1000) AND status = 1`) == 2
	})
	require.Zero(t, failed(), "the range that has failed is planned no more")
	require.Greater(t, c.planned(ledger), passes)
	require.Equal(t, c.number(`SELECT count(*) FROM seen`), c.number(`SELECT count(DISTINCT id) FROM seen`))
	require.Positive(t, c.number(`SELECT count(*) FROM event WHERE status = 0`))
	first.Drain(t)
	second.Drain(t)
}
