package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestAChunkThatStallsIsSplit has a target that never answers for ranges that are too large, while agents are killed: chunks are
// split until they are small enough, each row is marked once, and every batch succeeds.
func TestAChunkThatStallsIsSplit(t *testing.T) {
	t.Parallel()
	const rows, most = 2000, 300
	h := newHouse(t, 1)
	h.exec(`CREATE TABLE event (id bigint PRIMARY KEY, status int NOT NULL DEFAULT 0, times int NOT NULL DEFAULT 0)`)
	h.exec(fmt.Sprintf(`INSERT INTO event (id) SELECT n * 3 FROM generate_series(1, %d) AS n`, rows))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Data struct{ After, Through *string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Data.Through == nil {
			http.Error(w, "no range", http.StatusBadRequest)
			return
		}
		where := `id <= $1::bigint AND id > coalesce($2::bigint, 0) AND status = 0`
		ctx, cancel := context.WithTimeout(r.Context(), sqlWithin)
		defer cancel()
		var n int
		err := h.admin.QueryRow(ctx, `SELECT count(*) FROM event WHERE `+where, *body.Data.Through, body.Data.After).Scan(&n)
		if err == nil && n > most {
			<-r.Context().Done() // it hangs
			return
		}
		if err == nil {
			_, err = h.admin.Exec(ctx, `UPDATE event SET status = 1, times = times + 1 WHERE `+where, *body.Data.Through, body.Data.After)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	start := func(n int) *harness.Agent {
		return harness.StartAgent(t, harness.AgentOptions{
			Name: fmt.Sprintf("agent-%d", n), Store: h.url, Agent: "  workers = 8\n  presence = \"2s\"\n",
			Config: fmt.Sprintf("task \"work\" {\n  timeout = \"1s\"\n  retry {\n    limit = 2\n    min = \"100ms\"\n    max = \"100ms\"\n  }\n"+
				"  webhook {\n    url = %q\n    cancel_grace = \"0s\"\n  }\n}\nchunks \"events\" {\n  task = \"work\"\n  source {\n"+
				"    table = \"event\"\n    key = \"id\"\n  }\n  size = 1000\n}\n", server.URL),
		})
	}
	agents := []*harness.Agent{start(0), start(1)}
	for n := range agents {
		splits := h.number(`SELECT count(*) FROM leasehold.tasks WHERE state = 'split'`)
		harness.Until(t, workWithin, "a chunk is split", func() bool {
			return h.number(`SELECT count(*) FROM leasehold.tasks WHERE state = 'split'`) > splits
		})
		agents[n].Kill(t)
		agents[n] = start(2 + n)
	}
	harness.Until(t, workWithin, "all rows are marked, and the batch has ended", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.batches WHERE state = 'succeeded'`) == 1
	})
	require.EqualValues(t, rows, h.number(`SELECT count(*) FROM event WHERE times = 1`), "each row is marked once")
	require.Equal(t, 2+2*h.number(`SELECT count(*) FROM leasehold.tasks WHERE state = 'split'`),
		h.number(`SELECT count(*) FROM leasehold.tasks WHERE type = 'work'`))
	require.Zero(t, h.number(`SELECT count(*) FROM leasehold.tasks WHERE state = 'failed'`))
	require.Equal(t, h.number(`SELECT total FROM leasehold.batches`), h.number(`SELECT count(*) FROM leasehold.tasks WHERE state = 'succeeded'`))
	require.Zero(t, h.number(`SELECT count(*) FROM (
		SELECT c.after_key, lag(c.through_key) OVER (ORDER BY c.step, c.item, c.part) AS before, row_number() OVER (ORDER BY c.step, c.item, c.part) AS n
		FROM leasehold.chunk_range AS c JOIN leasehold.tasks AS t ON t.id = c.task_id AND t.state <> 'split'
	) AS r WHERE r.after_key IS DISTINCT FROM CASE WHEN r.n > 1 THEN r.before END`), "without a gap")
}
