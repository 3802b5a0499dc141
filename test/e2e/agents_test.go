package e2e_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// manyRows is how many rows several agents share.
func manyRows() int { return harness.Sized(8_000, 20_000) }

// insertRows returns SQL that inserts so many.
func insertRows(n int) string {
	return fmt.Sprintf(`INSERT INTO leasehold.task (type, payload) SELECT 'work', jsonb_build_object('n', n) FROM generate_series(1, %d) AS n`, n)
}

// TestManyAgents has four agents share the work: each task is done once, at the first attempt.
func TestManyAgents(t *testing.T) {
	rows := manyRows()
	h := newHouse(t, rows)
	for i := range 4 {
		h.agent(fmt.Sprintf("agent-%d", i), 16, "", "")
	}
	h.insert(rows, insertRows(rows))
	h.emptied()
	h.allSucceeded(rows)
	require.Empty(t, h.endpoint.twice(t), "done twice")
	require.EqualValues(t, 1, h.endpoint.attempt.Load(), "the highest attempt that the endpoint saw")
	require.EqualValues(t, 1, h.number(`SELECT max(attempt) FROM leasehold.task_archive`))
}

// TestKilledAndDrained kills one agent, drains another and starts a third half-way. Only what the killed one held may
// be done twice, and only that costs attempts.
func TestKilledAndDrained(t *testing.T) {
	const rows = 20_000 // of fewer, the others may have all by then that are not done
	h := newHouse(t, rows)
	h.endpoint.takes = 2_000_000 // 2 ms, so that the agents always have some under way
	killed := h.agent("killed", 16, "", "")
	drained := h.agent("drained", 16, "", "")
	h.agent("steady", 16, "", "")
	h.insert(rows, insertRows(rows))
	harness.Until(t, workWithin, "half of it is done, and the agent that is to be killed is at work", func() bool {
		return h.endpoint.total.Load() >= rows/2 && len(h.heldBy("killed")) > 0
	})

	killed.Kill(t)
	held := h.heldBy("killed")
	require.NotEmpty(t, held, "it was killed while it was at work")
	drained.Drain(t)
	held = append(held, h.heldBy("killed")...) // a claim that was under way commits although its agent is dead
	require.Empty(t, h.heldBy("drained"), "what it still holds")
	h.agent("late", 16, "", "")

	h.emptied()
	h.allSucceeded(rows)
	twice := h.endpoint.twice(t)
	t.Logf("the killed agent held %d tasks; %d were done twice", len(held), len(twice))
	for _, id := range twice {
		require.True(t, slices.Contains(held, id), "task %d was done twice, and the killed agent did not hold it", id)
	}
	costly := h.ids(`SELECT id FROM leasehold.task_archive WHERE attempt > 1 ORDER BY id`)
	for _, id := range costly {
		require.True(t, slices.Contains(held, id), "task %d lost an attempt, and the killed agent did not hold it", id)
	}
	require.LessOrEqual(t, h.endpoint.attempt.Load(), int64(2))
}
