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
	until := time.Now().Add(time.Duration(harness.Sized(10, 60)) * time.Second)
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

// TestSchedulesOfTwoServices has two services declare schedules in HCL on one store. After an outage of both, one of them starts
// first: it parks what the other declares and takes nothing from it, and the other goes on where it was.
func TestSchedulesOfTwoServices(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 1000)
	service := func(name, every string) *harness.Agent {
		return harness.StartAgent(t, harness.AgentOptions{
			Name: name, Store: h.url, Agent: "  workers = 4\n  presence = \"2s\"\n",
			Config: fmt.Sprintf("task \"work\" {\n  webhook {\n    url = %q\n  }\n}\nschedule %q {\n  task = \"work\"\n  every = %q\n}\n",
				h.endpoint.url, name, every),
		})
	}
	tasks := func(name string) int64 {
		return h.number(`SELECT count(*) FROM leasehold.tasks WHERE created_by = 'schedule:' || $1`, name)
	}
	fires := func(name string) {
		t.Helper()
		before := tasks(name)
		harness.Until(t, workWithin, name+" fires", func() bool { return tasks(name) > before })
	}
	billing, mails := service("billing", "1s"), service("mails", "1s")
	fires("billing")
	fires("mails")
	billing.Kill(t)
	mails.Kill(t)
	mails = service("mails", "1s")
	fires("mails")
	harness.Until(t, workWithin, "billing is parked", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.schedules WHERE name = 'billing' AND parked_at IS NOT NULL`) == 1
	})
	slot := h.number(`SELECT extract(epoch FROM last_slot)::bigint FROM leasehold.schedules WHERE name = 'billing'`)
	parked := tasks("billing")
	fires("mails")
	require.Equal(t, parked, tasks("billing"), "what is parked fires nothing")
	service("billing", "1s")
	fires("billing")
	require.Zero(t, h.number(`SELECT count(*) FROM leasehold.schedules WHERE parked_at IS NOT NULL`))
	require.Zero(t, h.number(`SELECT count(*) FROM leasehold.tasks WHERE created_by = 'schedule:billing'
		AND (payload->>'slot')::timestamptz <= to_timestamp($1) AND id > (
			SELECT max(id) FROM leasehold.tasks WHERE created_by = 'schedule:billing' AND (payload->>'slot')::timestamptz = to_timestamp($1))`, slot),
		"nothing fires again")
	// A newer declaration of a known schedule wins, also beside the older one.
	service("mails", "1h")
	harness.Until(t, workWithin, "the newest declaration is in force", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.schedules WHERE name = 'mails' AND every = '1h'`) == 1
	})
	mails.Kill(t)
	require.EqualValues(t, 2, h.number(`SELECT count(*) FROM leasehold.schedules`))
}

// TestSchedulesAfterAnOutage has twenty schedules behind by ten slots: missed and catch_up say how many of them fire.
func TestSchedulesAfterAnOutage(t *testing.T) {
	t.Parallel()
	const behind = 10
	h := newHouse(t, 1000)
	h.agent("migrates", 0, "", "").Drain(t)
	last := h.number(`SELECT extract(epoch FROM date_trunc('second', now()))::bigint`) - 30*60 // slot; the next is in half an hour
	want := make(map[string]int64)
	for n := range 20 {
		missed, catchUp, fires := []string{"one", "all", "none", "all", "one"}[n%5], "2d", []int64{1, behind, 0, 4, 0}[n%5]
		switch n % 5 {
		case 3:
			catchUp = "4h"
		case 4:
			catchUp = "0s"
		}
		name := fmt.Sprintf("behind %d", n)
		h.exec(`INSERT INTO leasehold.schedule (name, task, every, missed, catch_up, overlap, created_at, from_at, cursor_at)
			VALUES ($1, 'work', '1h', $2, $3, 'queue', now() - interval '2 days', $4, to_timestamp($5) - $6 * interval '1 hour')`,
			name, missed, catchUp, time.Unix(last, 0).Add(-24*time.Hour).UTC().Format(time.RFC3339), last, behind)
		want[name] = fires
	}
	h.agent("agent", 16, "", "")
	harness.Until(t, workWithin, "no schedule is behind", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.schedule WHERE next_at < now() OR cursor_at < to_timestamp($1) OR queued_slot IS NOT NULL`, last) == 0
	})
	h.emptied()
	for name, fires := range want {
		const of = `FROM leasehold.tasks WHERE created_by = 'schedule:' || $1`
		require.Equal(t, fires, h.number(`SELECT count(*) `+of, name), name)
		require.Equal(t, fires, h.number(`SELECT count(DISTINCT payload->>'slot') `+of, name), name)
		require.EqualValues(t, behind, fires+h.number(`SELECT missed_slots FROM leasehold.schedule WHERE name = $1`, name), name)
	}
}
