package storetest

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func agentChecks() []Check {
	return []Check{
		{"listed", agentsListed},
		{"states", agentsStates},
		{"cordon and uncordon", agentsCordoned},
		{"drain", agentsDrained},
		{"by number and by name", agentsByName},
		{"an order outlives its row", agentsRemembered},
		{"none that is absent", agentsNone},
	}
}

// beat writes a heartbeat of a session.
func (r *rig) beat(p store.Heartbeat) store.HeartbeatReply {
	r.t.Helper()
	p.Session = r.session
	if p.Agent.Name == "" {
		p.Agent = agent(r.name)
	}
	reply, err := r.Present(r.ctx, p)
	require.NoError(r.t, err)
	return reply
}

// agents lists agents.
func (r *rig) agents(all bool) []store.AgentInfo {
	r.t.Helper()
	list, err := r.ListAgents(r.ctx, all)
	require.NoError(r.t, err)
	return list
}

// order gives an order, which changes something of one session or nothing.
func (r *rig) order(who string, o store.AgentOrder, became store.AgentState, changed bool) {
	r.t.Helper()
	list, err := r.OrderAgent(r.ctx, who, o, "alice")
	require.NoError(r.t, err)
	require.Equal(r.t, []store.AgentOrdered{{Session: r.session, Name: r.name, State: became, Changed: changed}}, list)
}

func agentsListed(t testing.TB, h Harness) {
	r := newRig(t, h)
	a := agent(r.name)
	a.Region, a.Version, a.Config, a.Types = "sg", "1.2.3", "abc", []string{"x", `say "hello"`}
	r.beat(store.Heartbeat{Agent: a, Running: 3, Done: 70, Minute: 12})
	o := r.other("another")
	list := r.agents(false)
	require.Len(t, list, 2)
	require.Equal(t, o.session, list[0].Session, "by name")
	got := list[1]
	near(t, r.Now(), got.SeenAt)
	near(t, r.Now(), got.StartedAt)
	require.Equal(t, store.AgentInfo{
		Session: r.session, Name: r.name, State: store.AgentWorking, Region: "sg", Version: "1.2.3", Config: "abc", Workers: a.Workers,
		Running: 3, Done: 70, DonePerMinute: 12, Types: a.Types, StartedAt: got.StartedAt, SeenAt: got.SeenAt,
	}, got)
}

func agentsStates(t testing.TB, h Harness) {
	r := newRig(t, h)
	state := func() store.AgentState {
		t.Helper()
		return r.agents(true)[0].State
	}
	require.Equal(t, store.AgentWorking, state())
	r.beat(store.Heartbeat{Draining: true})
	require.Equal(t, store.AgentDraining, state())
	a := agent(r.name)
	a.Workers = 0
	r.beat(store.Heartbeat{Agent: a})
	require.Equal(t, store.AgentObserver, state())
	r.order(r.name, store.Cordon, store.AgentObserver, true)
	require.Equal(t, store.AgentObserver, state(), "it claims nothing anyway")
	r.Advance(t, presence+time.Minute)
	require.Equal(t, store.AgentAbsent, state())
	require.Empty(t, r.agents(false))
	r.beat(store.Heartbeat{})
	require.Equal(t, store.AgentCordoned, state())
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Equal(t, store.AgentLeft, state())
	require.Empty(t, r.agents(false))
}

func agentsCordoned(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.beat(store.Heartbeat{}).Order)
	takers := func(n int) {
		t.Helper()
		got, err := r.Takers(r.ctx, kind)
		require.NoError(t, err)
		require.Equal(t, store.Takers{Agents: n, OfType: n}, got)
	}
	takers(1)
	r.order(r.name, store.Cordon, store.AgentCordoned, true)
	r.order(r.name, store.Cordon, store.AgentCordoned, false)
	takers(0)
	require.Empty(t, r.stats().Orphans, "it still declares its types")
	reply := r.beat(store.Heartbeat{})
	require.Equal(t, store.Cordon, reply.Order)
	require.Equal(t, "alice", reply.OrderedBy)
	require.Equal(t, "alice", r.agents(false)[0].OrderedBy)
	require.Equal(t, store.AgentCordoned, r.agents(false)[0].State)
	r.order(r.name, store.Uncordon, store.AgentWorking, true)
	r.order(r.name, store.Uncordon, store.AgentWorking, false)
	require.Empty(t, r.beat(store.Heartbeat{}).Order)
	require.Empty(t, r.agents(false)[0].OrderedBy)
	takers(1)
}

func agentsDrained(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.order(r.name, store.Cordon, store.AgentCordoned, true)
	r.order(r.name, store.Drain, store.AgentDraining, true)
	require.Equal(t, store.Drain, r.beat(store.Heartbeat{}).Order)
	for _, o := range []store.AgentOrder{store.Uncordon, store.Cordon, store.Drain} {
		r.order(r.name, o, store.AgentDraining, false)
	}
	o := r.other("second")
	o.beat(store.Heartbeat{Draining: true})
	o.order(o.name, store.Uncordon, store.AgentDraining, false)
	o.order(o.name, store.Drain, store.AgentDraining, false)
}

func agentsByName(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other(r.name)
	list, err := r.OrderAgent(r.ctx, r.name, store.Cordon, "")
	require.NoError(t, err)
	require.Equal(t, []task.Session{r.session, o.session}, []task.Session{list[0].Session, list[1].Session})
	require.Equal(t, []task.Session{o.session, r.session}, []task.Session{r.agents(false)[0].Session, r.agents(false)[1].Session},
		"the newest first")
	o.order(strconv.FormatInt(int64(o.session), 10), store.Uncordon, store.AgentWorking, true)
	require.Equal(t, store.AgentCordoned, r.agents(false)[1].State)
}

func agentsRemembered(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.NoError(t, r.Leave(r.ctx, r.session))
	r.session += 1000 // a session whose row has been removed
	require.Equal(t, store.Cordon, r.beat(store.Heartbeat{Order: store.Cordon}).Order)
	require.Empty(t, r.beat(store.Heartbeat{Order: store.Cordon}).OrderedBy)
	r.order(r.name, store.Uncordon, store.AgentWorking, true)
}

func agentsNone(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, who := range []string{"nobody", "", "0", "%", "first' OR true --"} {
		_, err := r.OrderAgent(r.ctx, who, store.Drain, "")
		require.ErrorIs(t, err, store.ErrNoAgent, who)
	}
	require.NoError(t, r.Leave(r.ctx, r.session))
	_, err := r.OrderAgent(r.ctx, r.name, store.Drain, "")
	require.ErrorIs(t, err, store.ErrNoAgent)
}
