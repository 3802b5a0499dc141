package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestSettlementsFail lets everything work but the last step, while 60,000 tasks are due (at full length a million): the
// agent's memory and what it has claimed stay bounded, and once it works again nothing was lost.
func TestSettlementsFail(t *testing.T) {
	const (
		unsettled = 10_000 // outcomes that an agent keeps in memory; it claims nothing beyond
		workers   = 32
		ahead     = 2_000     // at most so many rows of one claim
		memory    = 200 << 20 // bytes
	)
	due := harness.Sized(60_000, 1_000_000)
	h := newHouse(t, due)
	h.insert(due, fmt.Sprintf(`INSERT INTO leasehold.task (type, payload)
		SELECT 'work', jsonb_build_object('n', n, 'text', repeat('x', 100)) FROM generate_series(1, %d) AS n`, due))
	h.exec(`CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'the archive is broken, for the test'; END $$`)
	h.exec(`CREATE TRIGGER broken BEFORE INSERT ON leasehold.task_archive FOR EACH ROW EXECUTE FUNCTION broken()`)

	// The timeout is long, so that the leases of what waits for its settlement last.
	agent := h.agent("agent", workers, "", "  timeout = \"10m\"")
	harness.Until(t, workWithin, "the outcomes in memory are near their limit", func() bool {
		return h.endpoint.total.Load() >= unsettled-ahead
	})
	// Nothing comes any more: for two seconds the count stays as it is.
	last, since := int64(-1), time.Now()
	harness.Until(t, workWithin, "claims stop", func() bool {
		if now := h.endpoint.total.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 2*time.Second
	})
	require.LessOrEqual(t, last, int64(unsettled+workers), "done and not settled")
	claimed := h.number(`SELECT count(*) FROM leasehold.task WHERE state = 'running'`)
	require.LessOrEqual(t, claimed, int64(unsettled+ahead+workers), "claimed")
	require.Zero(t, h.number(`SELECT count(*) FROM leasehold.task_archive`))
	require.Less(t, agent.PeakMemory(t), int64(memory))
	t.Logf("%d done, %d claimed, %d MB at most", last, claimed, agent.PeakMemory(t)>>20)

	h.exec(`DROP TRIGGER broken ON leasehold.task_archive`)
	harness.Until(t, workWithin, "what was done is settled", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.task_archive`) >= last
	})
	// The rest of them would go the same way; the test has seen enough once twice as many are done.
	h.exec(`DELETE FROM leasehold.task WHERE state = 'pending' AND id > $1`, 4*unsettled)
	h.emptied()
	require.Less(t, agent.PeakMemory(t), int64(memory))
	agent.Drain(t)

	done := h.endpoint.total.Load()
	require.Equal(t, done, h.number(`SELECT count(*) FROM leasehold.task_archive WHERE state = 'succeeded' AND attempt = 1`))
	require.Equal(t, done, h.number(`SELECT count(*) FROM leasehold.task_archive`))
	for id := range h.endpoint.hits {
		require.LessOrEqual(t, h.endpoint.hits[id].Load(), int32(1), "task %d", id)
		if id > 0 && id <= 4*unsettled {
			require.EqualValues(t, 1, h.endpoint.hits[id].Load(), "task %d", id)
		}
	}
}
