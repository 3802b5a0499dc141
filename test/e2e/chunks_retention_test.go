package e2e_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestChunksGoWithTheirBatches is TestAFollowedPlanOutlivesItsTasks on PostgreSQL, where whole days of the archive are dropped: what
// has finished is moved years back, and agents that start remove it.
func TestChunksGoWithTheirBatches(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1)
	h.exec(`CREATE TABLE event (id bigint PRIMARY KEY, status int NOT NULL DEFAULT 0)`)
	h.exec(`CREATE TABLE seen (task bigint, id bigint)`)
	h.exec(`INSERT INTO event (id) SELECT n * 3 FROM generate_series(1, 400) AS n`)
	url := h.processor("bigint")
	start := func(name string) *harness.Agent {
		return harness.StartAgent(t, harness.AgentOptions{
			Name: name, Store: h.url, Agent: "  workers = 8\n",
			Config: fmt.Sprintf("store {\n  retention = \"1d\"\n}\ntask \"work\" {\n  webhook {\n    url = %q\n  }\n}\nchunks \"events\" {\n"+
				"  task = \"work\"\n  source {\n    table = \"event\"\n    key = \"id\"\n    where = \"status = 0\"\n  }\n"+
				"  size = 50\n  follow = \"1s\"\n}\n", url),
		})
	}
	agents := []*harness.Agent{start("first")}
	processed := func(ids string) {
		t.Helper()
		h.exec(`INSERT INTO event (id) VALUES ` + ids)
		harness.Until(t, workWithin, "events are processed, and their batches have ended", func() bool {
			return h.number(`SELECT (SELECT count(*) FROM event WHERE status = 0) + (SELECT count(*) FROM leasehold.batches
				WHERE ended_at IS NULL)`) == 0
		})
	}
	processed(`(100000)`)
	processed(`(200000)`)

	const ledger = `SELECT count(*) FROM leasehold.chunk_pass WHERE chunks > 0 AND sealed_at IS NOT NULL`
	const planned = `SELECT sum(chunks) FROM leasehold.chunk_pass`
	passes, chunks := h.number(ledger), h.number(planned)
	require.GreaterOrEqual(t, passes, int64(2))
	require.Equal(t, chunks, h.number(`SELECT count(*) FROM leasehold.chunk_range`))
	h.exec(`CREATE TABLE leasehold.task_archive_20200202 PARTITION OF leasehold.task_archive
		FOR VALUES FROM ('2020-02-02 00:00:00+00') TO ('2020-02-03 00:00:00+00')`)
	h.exec(`UPDATE leasehold.task_archive SET finished_at = '2020-02-02 12:00:00+00'`)
	h.exec(`UPDATE leasehold.batch SET ended_at = '2020-02-02 12:00:00+00'`)
	h.exec(`UPDATE leasehold.chunk_pass SET sealed_at = '2020-02-02 12:00:00+00' WHERE chunks > 0`)

	agents = append(agents, start("second"))
	harness.Until(t, workWithin, "tasks are removed", func() bool { return h.number(`SELECT count(*) FROM leasehold.tasks`) == 0 })
	agents = append(agents, start("third"))
	harness.Until(t, workWithin, "batches and chunks are removed", func() bool {
		return h.number(`SELECT (SELECT count(*) FROM leasehold.batches) + (SELECT count(*) FROM leasehold.chunk_range)`) == 0
	})
	require.Equal(t, passes, h.number(ledger))
	require.Equal(t, chunks, h.number(planned))

	processed(`(7), (300000)`) // one of them below the highest key
	require.Greater(t, h.number(ledger), passes)
	require.EqualValues(t, 404, h.number(`SELECT count(DISTINCT id) FROM seen`))
	require.EqualValues(t, 404, h.number(`SELECT count(*) FROM seen`))
	for _, a := range agents {
		a.Drain(t)
	}
}
