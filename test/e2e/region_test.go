package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestARegionWithoutAgents: once the agents of a region are dead, its rows wait for spill_after since they were first due, also one that ran
// there; then they run elsewhere. Those of a type without spill_after never do.
func TestARegionWithoutAgents(t *testing.T) {
	const spill = 8 * time.Second // longer than a dead agent's presence
	h := newHouse(t, 40)
	in := func(name, region string) *harness.Agent {
		return harness.StartAgent(t, harness.AgentOptions{
			Name: name, Store: h.url, Agent: fmt.Sprintf("  workers = 4\n  presence = \"2s\"\n  region = %q\n", region),
			Config: fmt.Sprintf("task \"work\" {\n  spill_after = %q\n  webhook {\n    url = %q\n  }\n}\ntask \"local\" {\n  webhook {\n    url = %q\n  }\n}\n",
				spill, h.endpoint.url, h.endpoint.url),
		})
	}
	sg := in("sg", "sg")
	in("eu", "eu")
	insert := func(n int, typ string) {
		h.insert(n, fmt.Sprintf(`INSERT INTO leasehold.task (type, region, payload) SELECT '%s', 'sg', jsonb_build_object('n', n) FROM generate_series(1, %d) AS n`, typ, n))
	}
	insert(10, "work")
	h.emptied()
	require.EqualValues(t, 10, h.number(`SELECT count(*) FROM leasehold.task_archive t JOIN leasehold.agent a USING (session) WHERE a.name = 'sg'`))

	h.endpoint.holdsOn(make(chan struct{}))
	insert(4, "work")
	harness.Until(t, workWithin, "some run", func() bool { return len(h.heldBy("sg")) == 4 })
	sg.Kill(t)
	h.endpoint.holdsOn(nil)
	insert(10, "work")
	insert(10, "local")
	harness.Until(t, workWithin, "those with spill_after have run", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.task WHERE type = 'work'`) == 0
	})
	require.EqualValues(t, 14, h.number(`SELECT count(*) FROM leasehold.task_archive t JOIN leasehold.agent a USING (session)
		WHERE a.name = 'eu' AND t.region = 'sg' AND t.state = 'succeeded' AND t.claimed_at >= t.created_at + $1::bigint * interval '1 microsecond'`,
		spill.Microseconds()), "none earlier")
	require.EqualValues(t, 10, h.number(`SELECT count(*) FROM leasehold.task WHERE type = 'local' AND state = 'pending' AND NOT ever_started`))
}

// holdsOn has requests that come from now on wait until it is closed; nil: they do not wait.
func (e *endpoint) holdsOn(until chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = until
}
