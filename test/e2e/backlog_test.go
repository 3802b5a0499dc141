package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestBacklog kills all agents, over 10,000 overdue tasks (at full length 100,000), and starts one: it works through them by
// priority, then due time, and never has more connections to the target than workers.
func TestBacklog(t *testing.T) {
	const workers = 4
	backlog := harness.Sized(10_000, 100_000)
	h := newHouse(t, backlog)
	hold := make(chan struct{})
	h.endpoint.setHold(hold)
	agents := []*harness.Agent{h.agent("first", workers, "", ""), h.agent("second", workers, "", "")}
	// Priorities and due times are scattered over the ids (7919 is prime), and no two tasks share both.
	h.insert(backlog, fmt.Sprintf(`INSERT INTO leasehold.task (type, priority, run_at)
		SELECT 'work', n * 7919 %% 5 - 2, now() - interval '1 day' + n * 7919 %% %[1]d * interval '1 ms'
		FROM generate_series(1, %[1]d) AS n`, backlog))
	harness.Until(t, workWithin, "both are at work", func() bool { return h.endpoint.total.Load() == 2*workers })
	for _, a := range agents {
		a.Kill(t)
	}
	held := make(map[int64]bool)
	for _, name := range []string{"first", "second"} {
		for _, id := range h.heldBy(name) {
			held[id] = true
		}
	}
	due := h.ids(`SELECT id FROM leasehold.task WHERE state = 'pending' ORDER BY priority DESC, run_at, id`)
	require.Len(t, due, backlog-len(held))
	harness.Until(t, workWithin, "the dead agents' connections are closed", func() bool { return h.endpoint.connections.Load() == 0 })
	h.endpoint.setHold(nil)
	close(hold)
	h.endpoint.forget()
	h.endpoint.allowed.Store(workers)

	began := time.Now()
	h.agent("only", workers, "", "")
	h.emptied()
	t.Logf("%d tasks in %s, beside %d that the dead agents had held", len(due), time.Since(began), len(held))
	h.allSucceeded(backlog)
	require.LessOrEqual(t, h.endpoint.mostConnections.Load(), int64(workers), "connections at once")

	// What the dead held comes when its leases are over, at a due time of its own. All else comes in order, but for
	// what stands between the start of an attempt and the arrival of its request: workers overtake one another there.
	arrived := slices.DeleteFunc(h.endpoint.arrivals(), func(id int64) bool { return held[id] })
	require.Len(t, arrived, len(due), "done once each")
	place := make(map[int64]int, len(due))
	for i, id := range due {
		place[id] = i
	}
	// One that waits for a processor meanwhile is overtaken by any number, but this is so of few.
	const overtaking = 50 * workers
	late := 0
	for i, id := range arrived {
		require.LessOrEqual(t, place[id]-i, overtaking, "task %d came as number %d: so many before it had not come", id, i)
		if i-place[id] > overtaking {
			late++
		}
	}
	require.LessOrEqual(t, late, len(due)/100, "came after more than %d that were due later", overtaking)
}
