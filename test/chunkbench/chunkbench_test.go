//go:build linux && bench

// Package chunkbench_test measures what it costs to plan chunks, with real agents on a real PostgreSQL: make bench-chunks.
package chunkbench_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

const (
	workers = 32
	within  = 20 * time.Minute // of each measurement
	often   = 20 * time.Millisecond
	pause   = 50 * time.Millisecond // for which a task lasts
)

// rig is a database with a table, and an endpoint that an agent's tasks are sent to.
type rig struct {
	t     *testing.T
	url   string
	db    *pgxpool.Pool
	hook  string
	ended atomic.Int64 // tasks
}

// newRig fills a table with rows, of which those up to `open` have status 0.
func newRig(t *testing.T, rows, open int) *rig {
	t.Helper()
	r := &rig{t: t, url: harness.Database(t)}
	db, err := pgxpool.New(t.Context(), r.url)
	require.NoError(t, err)
	t.Cleanup(db.Close)
	r.db = db
	r.hook = waits(t, &r.ended)
	r.exec(`CREATE EXTENSION pg_stat_statements`)
	r.exec(`CREATE UNLOGGED TABLE event (id bigint NOT NULL, status integer NOT NULL, body text NOT NULL)`)
	r.exec(fmt.Sprintf(`INSERT INTO event (id, status, body) SELECT n, (n > %d)::integer, repeat('x', 40) FROM generate_series(1, %d) AS n`,
		open, rows))
	r.exec(`ALTER TABLE event ADD PRIMARY KEY (id)`)
	r.exec(`VACUUM (ANALYZE) event`)
	return r
}

// waits starts an endpoint that takes pause for each task, and counts those that ended.
func waits(t *testing.T, ended *atomic.Int64) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			ended.Add(1)
		case <-q.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// agent starts an agent that cuts the table.
func (r *rig) agent(size, ahead int, more string) *harness.Agent {
	r.t.Helper()
	return harness.StartAgent(r.t, harness.AgentOptions{
		Name: "agent", Store: r.url, Agent: fmt.Sprintf("  workers = %d", workers),
		Config: fmt.Sprintf("task \"work\" {\n  webhook {\n    url = %q\n  }\n}\nchunks \"events\" {\n  task = \"work\"\n  source {\n"+
			"    table = \"event\"\n    key = \"id\"\n    where = \"status = 0\"\n  }\n  size = %d\n  ahead = %d\n%s}\n",
			r.hook, size, ahead, more),
	})
}

func (r *rig) exec(sql string) {
	r.t.Helper()
	_, err := r.db.Exec(r.t.Context(), sql)
	require.NoError(r.t, err, sql)
}

func (r *rig) row(sql string, into ...any) {
	r.t.Helper()
	require.NoError(r.t, r.db.QueryRow(r.t.Context(), sql).Scan(into...), sql)
}

// every calls f until it returns true.
func (r *rig) every(f func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	tick := time.NewTicker(often)
	defer tick.Stop()
	for !f() {
		select {
		case <-ctx.Done():
			require.Fail(r.t, "it does not end")
		case <-tick.C:
		}
	}
}

// peak is the most memory that an agent ever had.
func (r *rig) peak(a *harness.Agent) (mib float64) {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.PID()))
	require.NoError(r.t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	require.NotNil(r.t, found)
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	require.NoError(r.t, err)
	return kib / 1024
}

// at is a moment of a pass.
type at struct {
	when   time.Time
	chunks int
	ended  int64 // tasks
	live   int
	sealed bool
	spent  map[string]spent // by statements of planning
}

// spent is what a statement has cost the server.
type spent struct{ blocks, seconds, calls float64 }

// touched is what statements of planning have cost. Tasks are inserted by the only one with payloads.
const touched = `SELECT CASE WHEN st.query LIKE '%public.event%' THEN 'source' ELSE left(regexp_replace(st.query, '\s+', ' ', 'g'), 70) END,
	sum(st.shared_blks_hit + st.shared_blks_read)::float8, sum(st.total_exec_time / 1000)::float8, sum(st.calls)::float8
FROM pg_stat_statements AS st JOIN pg_database AS d ON d.oid = st.dbid AND d.datname = current_database()
WHERE (st.query LIKE '%public.event%' OR st.query LIKE '%"leasehold".chunk\_%' OR st.query LIKE '%WITH ORDINALITY AS w (payload%')
	AND st.query NOT LIKE '%CREATE %'
GROUP BY 1`

func (r *rig) touched() map[string]spent {
	r.t.Helper()
	rows, err := r.db.Query(r.t.Context(), touched)
	require.NoError(r.t, err)
	all := map[string]spent{}
	var name string
	var s spent
	_, err = pgx.ForEachRow(rows, []any{&name, &s.blocks, &s.seconds, &s.calls}, func() error { all[name] = s; return nil })
	require.NoError(r.t, err)
	return all
}

// since adds up what was spent since an earlier moment, of the source or of the store.
func (a at) since(b at, source bool) (sum spent) {
	for name, s := range a.spent {
		if (name == "source") == source {
			sum.blocks += s.blocks - b.spent[name].blocks
			sum.seconds += s.seconds - b.spent[name].seconds
			sum.calls += s.calls - b.spent[name].calls
		}
	}
	return sum
}

const progress = `SELECT coalesce(s.chunks, 0), coalesce(s.sealed_at IS NOT NULL, false), (SELECT count(*) FROM leasehold.task AS t WHERE t.type = 'work')
FROM leasehold.chunk_plan AS p LEFT JOIN leasehold.chunk_pass AS s ON s.plan = p.name AND s.pass = 1`

func (r *rig) look() (a at) {
	r.t.Helper()
	a.when, a.ended = time.Now(), r.ended.Load()
	var plans int
	if r.row(`SELECT count(*) FROM leasehold.chunk_plan`, &plans); plans > 0 {
		r.row(progress, &a.chunks, &a.sealed, &a.live)
	}
	return a
}

// measured is what a pass over a table showed.
type measured struct {
	first, ninth, tenth, end at // after a tenth, at the ninth, when it was planned, and when it was all done
	began                    at
	short                    time.Duration // for which fewer chunks than workers were live, from then on
	peak                     float64
}

// pass plans and works off a table.
func pass(t *testing.T, rows, size, ahead int) (m measured) {
	t.Helper()
	return newRig(t, rows, rows).pass(rows, size, ahead)
}

func (r *rig) pass(rows, size, ahead int) (m measured) {
	t := r.t
	t.Helper()
	agent := r.agent(size, ahead, "")
	all := rows / size
	var last at
	mark := func(into *at, now at) {
		if into.when.IsZero() {
			*into = now
			into.spent = r.touched()
		}
	}
	r.every(func() bool {
		now := r.look()
		if !m.began.when.IsZero() && m.tenth.when.IsZero() && last.live < workers && now.live < workers {
			m.short += now.when.Sub(last.when)
		}
		last = now
		if now.live >= workers || now.sealed {
			mark(&m.began, now)
		}
		if now.chunks >= all/10 {
			mark(&m.first, now)
		}
		if now.chunks >= all/10*9 {
			mark(&m.ninth, now)
		}
		if now.sealed {
			mark(&m.tenth, now)
		}
		return now.sealed && now.live == 0
	})
	m.end, m.peak = last, r.peak(agent)
	require.Equal(t, all, m.end.chunks)
	agent.Drain(t)
	return m
}

// TestPlanningKeepsAhead: 32 workers with chunks of 50 ms never wait for planning.
func TestPlanningKeepsAhead(t *testing.T) {
	for _, ahead := range []int{64, 128} {
		m := pass(t, 2_000_000, 100, ahead)
		took := m.tenth.when.Sub(m.began.when)
		rate := float64(m.tenth.ended-m.began.ended) / took.Seconds()
		busy := (m.tenth.since(m.began, true).seconds + m.tenth.since(m.began, false).seconds) / took.Seconds()
		short := m.short.Seconds() / took.Seconds()
		t.Logf("%d ahead: %.0f chunks/s of %.0f, fewer than %d live for %.2f%% of the time, server busy with planning for %.1f%%", ahead, rate,
			workers/pause.Seconds(), workers, 100*short, 100*busy)
		require.Less(t, short, 0.01)
	}
}

// TestPlanningStaysFlat: what it takes to plan a chunk, and the agent's memory, do not grow with the table.
func TestPlanningStaysFlat(t *testing.T) {
	peaks := map[int]float64{}
	for _, rows := range []int{100_000, 1_000_000, 10_000_000} {
		t.Run(fmt.Sprintf("%d rows", rows), func(t *testing.T) { peaks[rows] = flat(t, rows) })
	}
	if few, many := peaks[100_000], peaks[10_000_000]; few > 0 && many > 0 { // RUN may choose others
		t.Logf("the agent's peak, 10^7 rows over 10^5: %.2f", many/few)
		require.Less(t, many/few, 1.25)
	}
}

// flat plans a table, logs what that takes, and returns the agent's peak memory, in MiB.
func flat(t *testing.T, rows int) float64 {
	t.Helper()
	m := pass(t, rows, 100, 128)
	took := m.tenth.when.Sub(m.began.when).Seconds()
	t.Logf("%d rows: %d chunks, %.0f chunks/s, fewer than %d live for %.2f%% of the time, agent's peak %.1f MiB", rows, m.tenth.chunks,
		float64(m.tenth.ended-m.began.ended)/took, workers, 100*m.short.Seconds()/took, m.peak)
	if rows > 100_000 { // else there are too few to compare tenths
		m.compare(t)
	}
	return m.peak
}

// reading is the newest pass, whether it is over the whole table and not at its end, and how many statements read the table now.
const reading = `SELECT p.pass, EXISTS (SELECT FROM leasehold.chunk_pass AS s
		WHERE s.plan = p.name AND s.pass = p.pass AND s.whole AND s.sealed_at IS NULL),
	(SELECT count(*) FROM pg_stat_activity AS act WHERE act.datname = current_database() AND act.state = 'active'
		AND act.query LIKE '%FROM public.event%' AND act.pid <> pg_backend_pid())
FROM leasehold.chunk_plan AS p`

// TestFullPassesRest: where `where` has no index, passes that find nothing take a twentieth of the time, however short follow is.
func TestFullPassesRest(t *testing.T) {
	for _, c := range []struct{ rows, open int }{
		{10_000_000, 0},
		{1_000_000, 1000}, // here passes behind the highest key that was planned read nearly all, too
	} {
		t.Run(fmt.Sprintf("%d rows", c.rows), func(t *testing.T) { rests(t, c.rows, c.open) })
	}
}

func rests(t *testing.T, rows, open int) {
	t.Helper()
	r := newRig(t, rows, open)
	agent := r.agent(1000, 64, "  follow = \"1s\"\n")
	var reads, all, ends, passes int
	var was, whole bool
	var began time.Time
	r.every(func() bool {
		var plans, pass, n int
		if r.row(`SELECT count(*) FROM leasehold.chunk_plan`, &plans); plans == 0 {
			return false
		}
		r.row(reading, &pass, &whole, &n)
		if was && !whole { // a pass over the whole table ends
			if ends++; ends == 1 {
				reads, all, passes, began = 0, 0, pass, time.Now()
				r.exec(`UPDATE event SET status = 1 WHERE status = 0`)
			}
		}
		was, reads, all = whole, reads+min(n, 1), all+1
		if ends == 3 {
			passes = pass - passes
		}
		return ends == 3
	})
	share := float64(reads) / float64(all)
	t.Logf("%d rows, %d to do at first: %d passes, 2 of them over the whole table, in %.0f s; the table is read for %.2f%% of the time",
		rows, open, passes, time.Since(began).Seconds(), 100*share)
	require.Less(t, share, 0.055) // it is sampled
	agent.Drain(t)
}

// TestPlanningUnderAHeldSnapshot: nothing is vacuumed while a transaction is open.
func TestPlanningUnderAHeldSnapshot(t *testing.T) {
	const rows = 3_000_000
	r := newRig(t, rows, rows)
	tx, err := r.db.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT txid_current()`)
	require.NoError(t, err)
	m := r.pass(rows, 100, 128)
	require.NoError(t, tx.Rollback(t.Context()))
	m.compare(t)
}

// compare logs what planning has cost in the last tenth of the chunks beside the first.
func (m *measured) compare(t *testing.T) {
	t.Helper()
	begins, ends := float64(m.first.chunks), float64(m.tenth.chunks-m.ninth.chunks)
	for place, source := range map[string]bool{"source": true, "store": false} {
		first, last := m.first.since(at{}, source).blocks/begins, m.tenth.since(m.ninth, source).blocks/ends
		t.Logf("  %s: %.1f buffers for a chunk in the first tenth, %.1f in the last: %.2f", place, first, last, last/first)
	}
	for name, s := range m.tenth.spent {
		if first, last := m.first.spent[name].blocks/begins, (s.blocks-m.ninth.spent[name].blocks)/ends; max(first, last) > 0.5 {
			t.Logf("    %5.1f %5.1f  %s", first, last, name)
		}
	}
}
