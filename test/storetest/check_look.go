package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func lookChecks() []Check {
	return []Check{
		{"a task that is not there", getMissing},
		{"filters", listFilters},
		{"newest first, live and finished", listOrder},
		{"pages", listPages},
		{"what a list leaves out", listLean},
		{"counts by type and state", statsCounts},
		{"the oldest that is due", statsOldest},
		{"orphans", statsOrphans},
		{"an observer", statsObserver},
		{"takers", statsTakers},
		{"agents that are present", statsAgents},
		{"the store is well", pingWell},
	}
}

// list lists ids.
func (r *rig) list(f store.TaskFilter) []task.ID {
	r.t.Helper()
	infos, err := r.List(r.ctx, f)
	require.NoError(r.t, err)
	requireWindows(r.t, r.ctx, r, f, 1)
	requireWindows(r.t, r.ctx, r, f, 3)
	out := make([]task.ID, len(infos))
	for i := range infos {
		out[i] = infos[i].ID
	}
	return out
}

func getMissing(t testing.TB, h Harness) {
	r := newRig(t, h)
	_, err := r.Get(r.ctx, 999_999_999)
	require.ErrorIs(t, err, store.ErrNoTask)
}

func listFilters(t testing.TB, h Harness) {
	r := newRig(t, h)
	acme, beta := map[string]string{"tenant": "acme"}, map[string]string{"tenant": "beta", "tier": "gold"}
	rows := r.Insert(t,
		store.EnqueueRequest{Type: kind, Labels: acme, Priority: 3}, store.EnqueueRequest{Type: kind, Key: "k", Labels: beta},
		store.EnqueueRequest{Type: "b", Key: "k"}, store.EnqueueRequest{Type: "b", Labels: acme, Priority: 1}, store.EnqueueRequest{Type: kind})
	taken := r.claim(want(kind, 1), want("b", 1))
	r.settled(finish(taken[0])) // rows[0]; rows[3] runs
	pending := []task.State{task.StatePending}
	for _, c := range []struct {
		filter store.TaskFilter
		want   []int
	}{
		{store.TaskFilter{}, []int{4, 3, 2, 1, 0}},
		{store.TaskFilter{Type: kind}, []int{4, 1, 0}},
		{store.TaskFilter{Type: "none"}, nil},
		{store.TaskFilter{States: pending}, []int{4, 2, 1}},
		{store.TaskFilter{States: []task.State{task.StateRunning, task.StateSucceeded}}, []int{3, 0}},
		{store.TaskFilter{States: []task.State{task.StateFailed}}, nil},
		{store.TaskFilter{Key: "k"}, []int{2, 1}},
		{store.TaskFilter{Key: "k", Type: "b"}, []int{2}},
		{store.TaskFilter{Labels: acme}, []int{3, 0}},
		{store.TaskFilter{Labels: acme, Type: kind}, []int{0}},
		{store.TaskFilter{Labels: beta}, []int{1}},
		{store.TaskFilter{Labels: map[string]string{"tier": "gold"}}, []int{1}},
		{store.TaskFilter{Labels: map[string]string{"tier": "gold", "tenant": "acme"}}, nil},
		{store.TaskFilter{Labels: map[string]string{"tier": ""}}, nil},
		{store.TaskFilter{Limit: 2}, []int{4, 3}},
		{store.TaskFilter{Before: rows[3]}, []int{2, 1, 0}},
		{store.TaskFilter{Before: rows[3], Type: kind, Limit: 1}, []int{1}},
		{store.TaskFilter{Before: rows[0]}, nil},
	} {
		wanted := []task.ID{}
		for _, i := range c.want {
			wanted = append(wanted, rows[i])
		}
		require.Equal(t, wanted, r.list(c.filter), "%+v", c.filter)
	}
}

func listOrder(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.insert(5)
	for i, row := range r.claim(want(kind, 5)) {
		if i != 1 && i != 3 {
			r.settled(finish(row))
		}
	}
	require.Equal(t, []task.ID{rows[4], rows[3], rows[2], rows[1], rows[0]}, r.list(store.TaskFilter{}))
	require.Equal(t, []task.ID{rows[4], rows[3], rows[2]}, r.list(store.TaskFilter{Limit: 3}))
	require.Equal(t, []task.ID{rows[2], rows[1]}, r.list(store.TaskFilter{Limit: 2, Before: rows[3]}), "pages go over both")
}

func listPages(t testing.TB, h Harness) {
	r := newRig(t, h)
	all := r.insert(60)
	require.Len(t, r.list(store.TaskFilter{}), 50, "the default")
	require.Len(t, r.list(store.TaskFilter{Limit: 1000}), 60)
	page := func(states ...task.State) (got []task.ID) {
		t.Helper()
		for f := (store.TaskFilter{States: states, Limit: 7}); ; f.Before = got[len(got)-1] {
			next := r.list(f)
			got = append(got, next...)
			if len(next) < 7 {
				return got
			}
		}
	}
	newest := make([]task.ID, len(all))
	for i, id := range all {
		newest[len(all)-1-i] = id
	}
	require.Equal(t, newest, page(task.StatePending))
	for _, row := range r.claim(want(kind, 60)) {
		r.settled(finish(row))
	}
	require.Equal(t, newest, page(task.StateSucceeded))
}

func listLean(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(retry(row, 0))
	done := finish(r.claim(want(kind, 1))[0])
	done.Outcome.Output = "some output"
	r.settled(done)
	whole := r.get(row.ID)
	require.NotEmpty(t, whole.History)
	require.NotEmpty(t, whole.Output)
	listed, err := r.List(r.ctx, store.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, listed, 1)
	whole.History, whole.Output = nil, ""
	require.Equal(t, *whole, listed[0], "all but history and output")
}

func (r *rig) stats() store.Stats {
	r.t.Helper()
	s, err := r.Stats(r.ctx)
	require.NoError(r.t, err)
	requireCounts(r.t, r.ctx, r)
	return s
}

func statsCounts(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.stats().Waiting)
	r.insert(6)
	r.Insert(t, store.EnqueueRequest{Type: "b", In: time.Hour})
	rows := r.claim(want(kind, 4))
	r.settled(finish(rows[0]), retry(rows[1], time.Hour))
	require.ElementsMatch(t, []store.TypeCount{
		{Type: kind, State: task.StatePending, N: 2}, {Type: kind, State: task.StateRunning, N: 2},
		{Type: kind, State: task.StateRetryPending, N: 1}, {Type: "b", State: task.StatePending, N: 1},
	}, r.stats().Waiting)
}

func statsOldest(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.Insert(t, store.EnqueueRequest{Type: kind, RunAt: r.now().Add(-10 * time.Minute)}, store.EnqueueRequest{Type: kind},
		store.EnqueueRequest{Type: "b", In: time.Hour}, store.EnqueueRequest{Type: "c"})
	r.Advance(t, 5*time.Minute)
	got := r.stats().OldestDue
	require.Equal(t, map[string]int64{kind: 2, "c": 1}, r.stats().Due)
	require.InDelta(t, 15*time.Minute, got[kind], float64(slack))
	require.Zero(t, got["b"], "none is due")
	require.InDelta(t, 5*time.Minute, got["c"], float64(slack))
	require.Len(t, r.claim(want(kind, 1)), 1)
	require.InDelta(t, 5*time.Minute, r.stats().OldestDue[kind], float64(slack), "what runs does not wait")
}

func statsOrphans(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(2)
	r.Insert(t, store.EnqueueRequest{Type: "b"}, store.EnqueueRequest{Type: "b", In: time.Hour}, store.EnqueueRequest{Type: "c"})
	require.Equal(t, map[string]int64{"b": 2, "c": 1}, r.stats().Orphans)

	a := agent("third")
	a.Types = []string{"b", "d"}
	s, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"c": 1}, r.stats().Orphans)
	require.Len(t, r.claim(want("c", 1)), 1)
	require.Empty(t, r.stats().Orphans, "what runs is no orphan")

	require.NoError(t, r.Leave(r.ctx, s))
	require.Equal(t, map[string]int64{"b": 2}, r.stats().Orphans)
	a.Types = []string{"b"}
	_, err = r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: a})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{kind: 2}, r.stats().Orphans, "a reload changes what an agent declares")
	r.Advance(t, presence+time.Minute)
	require.Equal(t, map[string]int64{kind: 2, "b": 2}, r.stats().Orphans, "agents that are gone declare nothing")
}

// statsObserver: an agent without workers claims nothing, whatever it declares.
func statsObserver(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(2)
	require.Empty(t, r.stats().Orphans)
	observer := agent("observer")
	observer.Workers = 0
	_, err := r.Join(r.ctx, observer)
	require.NoError(t, err)
	require.Equal(t, 1, r.stats().AgentsPresent)
	_, err = r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: observer})
	require.NoError(t, err)
	require.Zero(t, r.stats().AgentsPresent, "a reload changes how many workers an agent has")
	require.Equal(t, map[string]int64{kind: 2}, r.stats().Orphans)
	r.present()
	require.Equal(t, 1, r.stats().AgentsPresent)
	require.Empty(t, r.stats().Orphans)
}

func statsTakers(t testing.TB, h Harness) {
	r := newRig(t, h)
	takers := func(typ string, agents, ofType int) {
		t.Helper()
		got, err := r.Takers(r.ctx, typ)
		require.NoError(t, err)
		require.Equal(t, store.Takers{Agents: agents, OfType: ofType}, got, typ)
	}
	takers(kind, 1, 1)
	takers("b", 1, 0)
	a := agent("second")
	a.Types = []string{"b", "say \"hello\""}
	_, err := r.Join(r.ctx, a)
	require.NoError(t, err)
	a.Workers, a.Types = 0, []string{"c"}
	_, err = r.Join(r.ctx, a)
	require.NoError(t, err)
	takers("b", 2, 1)
	takers("say \"hello\"", 2, 1)
	takers("c", 2, 0) // an observer takes nothing
	require.NoError(t, r.Leave(r.ctx, r.session))
	takers(kind, 1, 0)
	r.Advance(t, presence+time.Minute)
	takers("b", 0, 0)
}

func statsAgents(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Equal(t, 1, r.stats().AgentsPresent)
	o := r.other("second")
	require.Equal(t, 2, r.stats().AgentsPresent)
	require.NoError(t, o.Leave(o.ctx, o.session))
	require.Equal(t, 1, r.stats().AgentsPresent)
	r.Advance(t, presence+time.Minute)
	require.Zero(t, r.stats().AgentsPresent)
	o.present()
	require.Equal(t, 1, r.stats().AgentsPresent)
}

func pingWell(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.NoError(t, r.Ping(r.ctx))
	require.NoError(t, r.other("second").Ping(r.ctx))
}
