package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func doctorChecks() []Check {
	return []Check{
		{"healthy", doctorHealthy},
		{"no agents", doctorNoAgents},
		{"absent agents", doctorAbsent},
		{"a name twice", doctorTwice},
		{"cordoned agents", doctorCordoned},
		{"stuck agents", doctorStuck},
		{"a clock jump", doctorJump},
		{"open breakers", doctorBreakers},
		{"versions", doctorVersions},
		{"configurations", doctorConfigurations},
		{"limits declared differently", doctorLimits},
		{"blocks declared differently", doctorDeclared},
		{"one name with two tasks", doctorTasks},
		{"paused types", doctorPaused},
		{"orphans", doctorOrphans},
		{"orphans of regions", doctorRegions},
		{"schedules", doctorSchedules},
		{"parked schedules", doctorParked},
		{"blocked sequences", doctorSequences},
		{"failed rollbacks", doctorRollbacks},
		{"stalls", doctorStalls},
		{"many of a kind", doctorMany},
	}
}

// doctor examines the store.
func (r *rig) doctor() ops.Checkup {
	r.t.Helper()
	x, ok := r.Harness.(ops.Diagnoser)
	require.True(r.t, ok)
	d, err := x.Diagnose(r.ctx)
	require.NoError(r.t, err)
	near(r.t, r.Now(), d.Now)
	require.Empty(r.t, d.Unseen)
	return ops.Examine(d, ops.DoctorOptions{OldestTransaction: later}, d.Now, d.Now)
}

// finds checks that the checks of that name, and no others, have findings, each with a remedy, and returns those; the role of a store may
// not see other sessions, and is told so.
func (r *rig) finds(name string, severity ops.Severity) (found []ops.Finding) {
	r.t.Helper()
	c := r.doctor()
	for _, f := range c.Findings {
		if f.Name == "privileges" {
			require.Equal(r.t, ops.Notice, f.Severity, "%+v", f)
			continue
		}
		require.Equal(r.t, name, f.Name, "%+v", c.Findings)
		require.Equal(r.t, severity, f.Severity, "%+v", f)
		require.NotEmpty(r.t, f.What)
		require.NotEmpty(r.t, f.Remedy)
		found = append(found, f)
	}
	require.Equal(r.t, severity != ops.Problem || len(found) == 0, c.Healthy)
	require.NotContains(r.t, c.Checked, "")
	if name != "" {
		require.Contains(r.t, c.Checked, name)
		require.NotEmpty(r.t, found)
	}
	return found
}

// healthy checks that there are no findings.
func (r *rig) healthy() {
	r.t.Helper()
	require.Empty(r.t, r.finds("", ops.Notice))
}

// maintained is a rig whose store has what agents make ahead.
func maintained(t testing.TB, h Harness) *rig {
	r := newRig(t, h)
	r.maintain(7 * 24 * time.Hour)
	return r
}

func doctorHealthy(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.healthy()
	r.insert(3)
	r.settled(finish(r.claim(want(kind, 1))[0]))
	r.healthy()
	require.Greater(t, len(r.doctor().Checked), 20)
}

func doctorNoAgents(t testing.TB, h Harness) {
	r := maintained(t, h)
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Contains(t, r.finds("no_agents", ops.Problem)[0].What, "no agent is running")
	a := agent("observer")
	a.Workers = 0
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	require.Contains(t, r.finds("no_agents", ops.Problem)[0].What, "none of the 1 agents")
}

func doctorAbsent(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.other("second")
	r.Advance(t, presence+time.Minute)
	r.beat(store.Heartbeat{})
	found := r.finds("agent_absent", ops.Notice)
	require.Len(t, found, 1)
	require.Equal(t, "second", found[0].About)
	near(t, r.Now().Add(-presence-time.Minute), *found[0].Since)
	next := r.other("second")
	r.healthy()
	require.NoError(t, r.Leave(r.ctx, next.session))
	r.healthy() // a newer one took its place, and has exited
}

func doctorTwice(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.other(r.name)
	r.healthy() // the first was killed, as far as can be known: it has sent nothing since
	r.Advance(t, 100*time.Millisecond)
	r.beat(store.Heartbeat{})
	require.Equal(t, r.name, r.finds("agent_twice", ops.Notice)[0].About)
}

func doctorCordoned(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.other("second")
	_, err := r.OrderAgent(r.ctx, "second", store.Cordon, "bob")
	require.NoError(t, err)
	f := r.finds("agent_cordoned", ops.Notice)[0]
	require.Contains(t, f.What, "by bob")
	require.Equal(t, "leasehold agents uncordon second", f.Remedy)
}

func doctorStuck(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.beat(store.Heartbeat{Condition: store.Condition{Stuck: 90_000}})
	f := r.finds("agent_stuck", ops.Problem)[0]
	require.Contains(t, f.What, "has not turned for 1m")
	near(t, r.Now().Add(-90*time.Second), *f.Since)
	r.beat(store.Heartbeat{Condition: store.Condition{Starved: 120_000}})
	require.Contains(t, r.finds("agent_stuck", ops.Problem)[0].What, "could claim none for 2m")
	r.beat(store.Heartbeat{})
	r.healthy()
}

func doctorJump(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.beat(store.Heartbeat{Condition: store.Condition{Jumped: 600_000}})
	near(t, r.Now().Add(-10*time.Minute), *r.finds("clock_jump", ops.Problem)[0].Since)
}

func doctorBreakers(t testing.TB, h Harness) {
	r := maintained(t, h)
	open := func(ms int64) store.Condition {
		return store.Condition{Breakers: []store.OpenBreaker{{Types: []string{kind}, Phase: task.Run, OpenFor: ms, Error: "refused\x1b[31m"}}}
	}
	r.beat(store.Heartbeat{Condition: open(60_000)})
	o := r.other("second")
	o.beat(store.Heartbeat{Condition: open(120_000)})
	r.other("third")
	found := r.finds("breaker_open", ops.Problem)
	require.Len(t, found, 1)
	require.Contains(t, found[0].What, "out of reach of 2 of 3 agents")
	require.Contains(t, found[0].What, "refused")
	require.NotContains(t, found[0].What, "\x1b")
	near(t, r.Now().Add(-2*time.Minute), *found[0].Since)
}

func doctorVersions(t testing.TB, h Harness) {
	r := maintained(t, h)
	a := agent("second")
	a.Version = "older"
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	require.Contains(t, r.finds("version_differs", ops.Notice)[0].What, "older, test")
}

func doctorConfigurations(t testing.TB, h Harness) {
	r := maintained(t, h)
	a := agent("second")
	a.Region, a.Config = "sg", "other"
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	r.healthy()
	a.Name, a.Region, a.Types = "third", "", []string{"another"}
	_, err = r.Join(r.ctx, a)
	require.NoError(t, err)
	r.healthy()
	a.Name, a.Types = "fourth", []string{kind}
	session, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	require.Contains(t, r.finds("config_differs", ops.Notice)[0].What, "c0ffee (first), other (fourth)")
	r.Advance(t, later)
	r.beat(store.Heartbeat{})
	_, err = r.Present(r.ctx, store.Heartbeat{Session: session, Agent: a})
	require.NoError(t, err)
	c := r.doctor()
	i := slices.IndexFunc(c.Findings, func(f ops.Finding) bool { return f.Name == "config_differs" })
	require.GreaterOrEqual(t, i, 0)
	require.Equal(t, ops.Problem, c.Findings[i].Severity)
}

// declaresAs has a second agent declare a block differently, which lasts.
func (r *rig) declaresAs(kind, name string, first, second map[string]string) {
	r.t.Helper()
	o := r.other("second")
	r.blocks(store.Block{Kind: kind, Name: name, Fields: first})
	o.blocks(store.Block{Kind: kind, Name: name, Fields: second})
	r.Advance(r.t, later)
	r.beat(store.Heartbeat{})
	o.beat(store.Heartbeat{})
}

func doctorLimits(t testing.TB, h Harness) {
	for field, value := range map[string]string{"limit": "3", "tenant.rate": `"1/s"`, "sequence.on_failure": `"continue"`} {
		r := maintained(t, h)
		r.declaresAs("task", "a."+field, map[string]string{"timeout": "1"}, map[string]string{"timeout": "1", field: value})
		f := r.finds("limit_differs", ops.Problem)[0]
		require.Contains(t, f.What, "differently in "+field+" (first, second)")
		require.Equal(t, "load the same definition everywhere: leasehold declarations a."+field, f.Remedy)
		r.Advance(t, 4*later) // and both are past
	}
}

func doctorDeclared(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.declaresAs("task", "a", map[string]string{"timeout": "1", "limit": "2"}, map[string]string{"timeout": "2", "limit": "2"})
	require.Equal(t, "task a", r.finds("declaration_differs", ops.Notice)[0].About)
	r.Advance(t, 4*later)
	r = maintained(t, h)
	r.declaresAs("schedule", "s", map[string]string{"task": "a", "cron": "1"}, map[string]string{"task": "a", "cron": "2"})
	require.Contains(t, r.finds("declaration_differs", ops.Problem)[0].Remedy, "--kind schedule")
}

func doctorTasks(t testing.TB, h Harness) {
	for _, of := range []string{"schedule", "chunks"} {
		r := maintained(t, h)
		r.declaresAs(of, "n", map[string]string{"task": `"a"`}, map[string]string{"task": `"b"`})
		require.Contains(t, r.finds("task_differs", ops.Problem)[0].What, of+` n for different task types, "a", "b"`)
		r.Advance(t, 4*later)
	}
}

func doctorPaused(t testing.TB, h Harness) {
	r := maintained(t, h)
	_, err := r.PauseType(r.ctx, kind, "the bank is down", "alice")
	require.NoError(t, err)
	f := r.finds("type_paused", ops.Notice)[0]
	require.Contains(t, f.What, "by alice")
	require.Contains(t, f.What, "the bank is down")
	require.Equal(t, "leasehold resume "+kind, f.Remedy)
}

func doctorOrphans(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.insert(2)
	r.Insert(t, store.EnqueueRequest{Type: "lost"}, store.EnqueueRequest{Type: "lost", Tenant: "acme", In: time.Hour},
		store.EnqueueRequest{Type: "another", Tenant: "acme"})
	found := r.finds("orphans", ops.Problem)
	require.Len(t, found, 2)
	require.Equal(t, "another", found[0].About)
	require.Contains(t, found[1].What, "type lost has 2 tasks waiting")
	require.Contains(t, found[1].Remedy, "leasehold orphans move lost NEW")
	a := agent("observer")
	a.Workers, a.Types = 0, []string{"lost", "another"}
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	require.Len(t, r.finds("orphans", ops.Problem), 2)
}

func doctorRegions(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.Insert(t, store.EnqueueRequest{Type: kind, Region: "sg"}, store.EnqueueRequest{Type: kind, Region: "sg", In: time.Hour})
	f := r.finds("region_orphans", ops.Problem)[0]
	require.Equal(t, "sg", f.About)
	require.Contains(t, f.What, "type "+kind+" has 1 task due")
}

func doctorSchedules(t testing.TB, h Harness) {
	r := maintained(t, h)
	r.declared("a", "b")
	r.healthy()
	_, err := r.PauseSchedule(r.ctx, "b", "alice")
	require.NoError(t, err)
	r.Advance(t, presence-time.Minute)
	r.beat(store.Heartbeat{})
	c := r.doctor()
	behind := c.Findings[0]
	require.Equal(t, "schedule_behind", behind.Name)
	require.Equal(t, "a", behind.About)
	require.Equal(t, ops.Problem, behind.Severity)
	paused := c.Findings[slices.IndexFunc(c.Findings, func(f ops.Finding) bool { return f.Name == "schedule_paused" })]
	require.Equal(t, "b", paused.About)
	require.Contains(t, paused.What, "by alice")
	require.Equal(t, ops.Notice, paused.Severity)

	s := r.due()["a"]
	applied, err := r.ApplyFirings(r.ctx, []store.Firing{{Name: "a", Version: s.Version, Invalid: "no such zone"}})
	require.NoError(t, err)
	require.Len(t, applied, 1)
	c = r.doctor()
	require.Equal(t, "schedule_invalid", c.Findings[0].Name)
	require.Contains(t, c.Findings[0].What, "no such zone")
}

func doctorParked(t testing.TB, h Harness) {
	r := maintained(t, h)
	s := store.ScheduleSpec{Name: "a", Task: kind, Every: "1h"}
	r.putInForce(s)
	r.healthy()
	r.says()
	changed, _ := r.settles()
	require.Equal(t, 1, changed)
	f := r.finds("schedule_parked", ops.Problem)[0]
	require.Equal(t, "a", f.About)
	near(t, r.Now(), *f.Since)
	require.Contains(t, f.Remedy, "leasehold schedule rm a")
	require.Equal(t, store.Halted{Schedules: 1, Sequences: map[string]int64{}}, r.halted())
}

func doctorSequences(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	r.maintain(7 * 24 * time.Hour)
	rows := r.Insert(t, store.EnqueueRequest{Type: kind, Sequence: "s"}, store.EnqueueRequest{Type: kind, Sequence: "s"})
	held := r.claim(want(kind, 2))
	require.Len(t, held, 1)
	r.healthy()
	r.settled(fails(held[0]))
	r.promoted(0)
	f := r.finds("sequence_blocked", ops.Problem)[0]
	near(t, r.Now(), *f.Since)
	require.Equal(t, "leasehold sequence retry "+kind+" s, or skip or cancel", f.Remedy)
	require.Equal(t, store.Halted{Sequences: map[string]int64{kind: 1}}, r.halted())
	_, err := r.Retry(r.ctx, rows[0], "alice")
	require.NoError(t, err)
	r.healthy()
}

func doctorRollbacks(t testing.TB, h Harness) {
	r := maintained(t, h)
	row := r.held()
	r.settled(ended(row, task.Failed, task.StateRollbackPending))
	r.settled(ended(r.claim(wantOf(kind, task.Rollback, 1))[0], task.Failed, task.StateRollbackFailed))
	f := r.finds("rollback_failed", ops.Problem)[0]
	near(t, r.Now(), *f.Since)
	require.Contains(t, f.What, kind)
}

func doctorStalls(t testing.TB, h Harness) {
	r := maintained(t, h)
	stall := func(n int) {
		t.Helper()
		r.insert(n)
		for _, row := range r.claim(want(kind, n)) {
			s := retry(row, time.Hour)
			s.Outcome = task.Outcome{Verdict: task.Stalled, Error: "no heartbeat"}
			r.settled(s)
		}
	}
	stall(4)
	require.Contains(t, r.finds("stalls", ops.Notice)[0].What, "4 attempts of type "+kind)
	stall(1)
	f := r.finds("stalls", ops.Problem)[0]
	require.Contains(t, f.What, "5 attempts of type "+kind)
	require.Contains(t, f.Remedy, "fewer requests at once than workers and limit allow")
	near(t, r.Now(), *f.Since)
	r.Advance(t, 2*time.Hour)
	r.other("second")
	for _, f := range r.doctor().Findings {
		require.NotEqual(t, "stalls", f.Name)
	}
}

func doctorMany(t testing.TB, h Harness) {
	r := maintained(t, h)
	var rows []store.EnqueueRequest
	for _, c := range "abcdefghi" {
		rows = append(rows, store.EnqueueRequest{Type: string(c)})
	}
	r.Insert(t, rows...)
	found := r.finds("orphans", ops.Problem)
	require.Len(t, found, 5)
	require.Contains(t, found[4].What, "; and 4 more like it")
}
