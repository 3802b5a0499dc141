package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestSlotsFireOnce has ten agents fire fifty schedules of one-second slots while agents are killed and started again at random:
// every slot fires once, and none is missed. The agent that runs the tasks is not killed: a slot that comes while the last task is
// live, and another waits already, is dropped by design, and that of a killed agent is live until its lease ends.
func TestSlotsFireOnce(t *testing.T) {
	const schedules = 50
	h := newHouse(t, 100_000)
	var agents []*harness.Agent
	start := func(n int) *harness.Agent { return h.agent(fmt.Sprintf("agent-%d", n), 0, "", "") }
	for n := range 9 {
		agents = append(agents, start(n))
	}
	h.agent("steady", 16, "", "")
	h.exec(`INSERT INTO leasehold.schedule (name, task, every, overlap)
		SELECT 'every second ' || n, 'work', '1s', 'queue' FROM generate_series(1, $1) AS n`, schedules)
	until := time.Now().Add(time.Duration(harness.Sized(15, 60)) * time.Second)
	kills := 0
	for time.Now().Before(until) {
		n := rand.IntN(len(agents))
		before := h.number(`SELECT count(*) FROM leasehold.tasks`)
		harness.Until(t, workWithin, "more slots have fired", func() bool {
			return h.number(`SELECT count(*) FROM leasehold.tasks`) > before+schedules/4
		})
		agents[n].Kill(t)
		agents[n] = start(n)
		kills++
	}
	h.exec(`UPDATE leasehold.schedule SET paused_at = now(), version = version + 1`)
	h.emptied()
	require.EqualValues(t, schedules, h.number(`SELECT count(*) FROM (
		SELECT created_by FROM leasehold.tasks GROUP BY created_by
		HAVING count(*) = count(DISTINCT payload->>'slot')
		   AND count(*) = extract(epoch FROM max((payload->>'slot')::timestamptz) - min((payload->>'slot')::timestamptz)) + 1
	) AS exact`), "schedules of which each slot has one task")
	require.Zero(t, h.number(`SELECT sum(missed_slots)::bigint FROM leasehold.schedule`), "missed")
	t.Logf("%d tasks, %d agents killed", h.number(`SELECT count(*) FROM leasehold.tasks`), kills)
}
