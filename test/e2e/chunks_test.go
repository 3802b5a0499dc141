package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// chunkSQL returns the statements of docs/chunks.md, for the first range and for all others, with keys of a type.
func chunkSQL(t *testing.T, kind string) (first, other string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/chunks.md")
	require.NoError(t, err)
	found := regexp.MustCompile("(?s)```sql\n(.*?)\n```").FindAllStringSubmatch(string(text), -1)
	require.Len(t, found, 2)
	for i := range found {
		found[i][1] = strings.ReplaceAll(found[i][1], "::bigint", "::"+kind)
	}
	return found[0][1], found[1][1]
}

// processor marks the rows of chunks as done, and notes which task has marked which row.
func (h *house) processor(kind string) (url string) {
	first, other := chunkSQL(h.t, kind)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Data struct{ After, Through *string }
			Task struct{ ID int64 }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Data.Through == nil {
			http.Error(w, "no range", http.StatusBadRequest)
			return
		}
		sql, args := first, []any{*body.Data.Through}
		if body.Data.After != nil {
			sql, args = other, []any{*body.Data.After, *body.Data.Through}
		}
		sql = `WITH done AS (` + sql + ` RETURNING id) INSERT INTO seen SELECT ` + fmt.Sprint(body.Task.ID) + `, id FROM done`
		ctx, cancel := context.WithTimeout(r.Context(), sqlWithin)
		defer cancel()
		if _, err := h.admin.Exec(ctx, sql, args...); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	h.t.Cleanup(server.Close)
	return server.URL
}

// verified waits until `chunks verify` proves that all of a table of so many rows was cut, and finds nothing left.
func verified(t *testing.T, store, config string, rows int64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "verify.hcl")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	var out string
	harness.Until(t, workWithin, "the plan is verified", func() bool {
		text, exit := harness.Run(t, nil, "--config", file, "--store", store, "chunks", "verify", "events", "-o", "json")
		require.Contains(t, []int{0, 3}, exit)
		out = text
		return exit == 0
	})
	var proof struct {
		Covered, Counted bool
		Left             int
		Passes           []struct{ Rows int64 }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &proof), out)
	require.True(t, proof.Covered && proof.Counted, out)
	require.Zero(t, proof.Left, out)
	require.NotEmpty(t, proof.Passes, out)
	require.LessOrEqual(t, proof.Passes[0].Rows, rows, out)
}

// worthAnAgent reports whether a kind of key is among those that agents cut tables by: all of them in `make test-all`, else a number and a
// text, since the tests of the sources (sourcetest) have all kinds.
func worthAnAgent(kind string) bool {
	return harness.Sized(0, 1) == 1 || kind == "bigint" || kind == "integer" || kind == "text"
}

// TestChunksCoverATable cuts tables with keys of each kind while agents are killed, added, and rows come in, some of them late:
// each row is marked once, the ranges of each pass lie one behind another, and `chunks verify` says so.
func TestChunksCoverATable(t *testing.T) {
	t.Parallel()
	rows := harness.Sized(20_000, 300_000)
	for kind, key := range map[string]string{
		"bigint":      `9007199254740000 + n * 3`,
		"uuid":        `gen_random_uuid()`,
		"text":        `md5(n::text) || 'ü"'`,
		"timestamptz": `'2026-01-01 00:00:00.000001+00'::timestamptz + n * interval '1.000007 seconds'`,
	} {
		if !worthAnAgent(kind) {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, 1)
			h.exec(`CREATE TABLE event (id ` + kind + ` PRIMARY KEY, status int NOT NULL DEFAULT 0)`)
			h.exec(`CREATE TABLE seen (task bigint, id ` + kind + `)`)
			fill := func(from, to int) string {
				return fmt.Sprintf(`INSERT INTO event (id) SELECT %s FROM generate_series(%d, %d) AS n WHERE n %% 7 <> 0`, key, from, to)
			}
			h.exec(fill(rows/10, rows))
			url := h.processor(kind)
			config := fmt.Sprintf("task \"work\" {\n  webhook {\n    url = %q\n  }\n}\nchunks \"events\" {\n  task = \"work\"\n  source {\n"+
				"    table = \"event\"\n    key = \"id\"\n    where = \"status = 0\"\n  }\n  size = %d\n  ahead = 16\n  follow = \"1s\"\n}\n",
				url, max(rows/200, 10))
			start := func(n int) *harness.Agent {
				return harness.StartAgent(t, harness.AgentOptions{
					Name: fmt.Sprintf("agent-%d", n), Store: h.url, Agent: "  workers = 8\n  presence = \"2s\"\n", Config: config,
				})
			}
			late, err := h.admin.Begin(t.Context()) // it has low keys, and commits behind them
			require.NoError(t, err)
			_, err = late.Exec(t.Context(), fill(1, rows/10-1))
			require.NoError(t, err)
			agents := []*harness.Agent{start(0), start(1)}
			seen := func() int64 { return h.number(`SELECT count(*) FROM seen`) }
			left := func() int64 {
				return h.number(`SELECT count(*) FROM (SELECT FROM event WHERE status = 0 LIMIT 1) AS one`)
			}
			for step := range 3 {
				least := seen() + int64(rows/10)
				harness.Until(t, workWithin, "rows are marked", func() bool { return seen() >= least || left() == 0 })
				n := rand.IntN(len(agents))
				agents[n].Kill(t)
				h.exec(fill(rows+step*rows/10+1, rows+(step+1)*rows/10))
				agents[n] = start(n)
				agents = append(agents, start(10+step))
			}
			require.NoError(t, late.Commit(t.Context()))
			harness.Until(t, workWithin, "no row is left", func() bool { return left() == 0 })
			all := h.number(`SELECT count(*) FROM event`)
			require.Equal(t, all, seen())
			require.Equal(t, all, h.number(`SELECT count(DISTINCT id) FROM seen`), "each row is marked once")
			require.Zero(t, h.number(`SELECT count(*) FROM (
				SELECT c.after_key, lag(c.through_key) OVER w AS before, row_number() OVER w AS n, s.from_key
				FROM leasehold.chunk_range AS c JOIN leasehold.chunk_pass AS s ON s.plan = c.plan AND s.pass = c.planned
				WHERE c.planned = 1 WINDOW w AS (ORDER BY c.task_id)
			) AS r WHERE r.after_key IS DISTINCT FROM CASE WHEN r.n = 1 THEN r.from_key ELSE r.before END`), "the first pass has no gap")
			verified(t, h.url, config, all)
			require.Zero(t, h.number(`SELECT count(*) FROM leasehold.tasks WHERE type = 'work' AND state = 'failed'`))
			t.Logf("%d rows, %d tasks, %d passes", all, h.number(`SELECT count(*) FROM leasehold.tasks`),
				h.number(`SELECT pass FROM leasehold.chunk_plan`))
		})
	}
}
