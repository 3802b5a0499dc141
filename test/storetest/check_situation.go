package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func situationChecks() []Check {
	return []Check{
		{"no such task", whyMissing},
		{"due, and due later", whyDue},
		{"of a type that is paused", whyPaused},
		{"without agents", whyAgents},
		{"what comes first", whyAhead},
		{"of tenants", whyTenants},
		{"a lock", whyLock},
		{"a sequence", whySequence},
		{"a limit", whyLimit},
		{"a rate", whyRate},
		{"a batch that stops", whyBatch},
		{"waits for another", whyAfter},
		{"a follower", whyFollows},
		{"a breaker, and full slots", whyCondition},
		{"running", whyRunning},
		{"finished", whyFinished},
		{"at random", whyAtRandom},
	}
}

// explainer is the store. The model explains nothing.
func (r *rig) explainer() ops.Explainer {
	r.t.Helper()
	x, ok := r.Harness.(ops.Explainer)
	require.True(r.t, ok)
	return x
}

// why returns the explanation of a task.
func (r *rig) why(id task.ID) ops.Explanation {
	r.t.Helper()
	w, err := r.explainer().Situation(r.ctx, id)
	require.NoError(r.t, err)
	near(r.t, r.Now(), w.Now)
	return ops.Why(w, nil)
}

// reason checks why a task does not run, and returns the explanation.
func (r *rig) reason(id task.ID, kind ops.ReasonKind, also ...ops.ReasonKind) ops.Explanation {
	r.t.Helper()
	e := r.why(id)
	require.Equal(r.t, kind, e.Kind, "%+v", e)
	require.NotEmpty(r.t, e.Text)
	others := []ops.ReasonKind{}
	for _, a := range e.Also {
		others = append(others, a.Kind)
	}
	require.ElementsMatch(r.t, also, others, "%+v", e.Also)
	return e
}

func whyMissing(t testing.TB, h Harness) {
	r := newRig(t, h)
	_, err := r.explainer().Situation(r.ctx, 999_999_999)
	require.ErrorIs(t, err, store.ErrNoTask)
}

func whyDue(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.Insert(t, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind, In: time.Hour})
	r.reason(rows[0], ops.WhyStarting)
	e := r.reason(rows[1], ops.WhyNotDue)
	require.NotNil(t, e.Starts)
	near(t, r.Now().Add(time.Hour), *e.Starts)
}

func whyPaused(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.Insert(t, store.EnqueueRequest{Type: kind})[0]
	_, err := r.PauseType(r.ctx, kind, "the bank is down", "alice")
	require.NoError(t, err)
	e := r.reason(row, ops.WhyPaused)
	require.Equal(t, "alice", e.By)
	require.Contains(t, e.Text, "the bank is down")
}

func whyAgents(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.Insert(t, store.EnqueueRequest{Type: "unknown"}, store.EnqueueRequest{Type: kind, Region: "sg"})
	r.reason(rows[0], ops.WhyUndeclared)
	r.reason(rows[1], ops.WhyRegion)
	_, err := r.OrderAgent(r.ctx, r.name, store.Cordon, "bob")
	require.NoError(t, err)
	row := r.Insert(t, store.EnqueueRequest{Type: kind})[0]
	e := r.reason(row, ops.WhyCordoned)
	require.Equal(t, "bob", e.By)
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Contains(t, r.reason(row, ops.WhyUndeclared).Text, "no agent is running")
}

func whyAhead(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.Insert(t,
		store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind, Priority: 3},
		store.EnqueueRequest{Type: kind, Priority: 5, In: time.Hour}, store.EnqueueRequest{Type: kind, Priority: -1},
		store.EnqueueRequest{Type: "b", Priority: 9}, store.EnqueueRequest{Type: kind, Region: "sg", Priority: 9})
	r.reason(rows[2], ops.WhyStarting)
	for i, ahead := range map[int]int{0: 1, 1: 2, 4: 3} {
		require.Equal(t, ahead, r.reason(rows[i], ops.WhyAhead).Ahead, i)
	}
	require.Zero(t, r.reason(rows[3], ops.WhyNotDue).Ahead)
}

func whyTenants(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.Insert(t,
		store.EnqueueRequest{Type: kind, Tenant: "acme"}, store.EnqueueRequest{Type: kind, Tenant: "acme"},
		store.EnqueueRequest{Type: kind, Tenant: "beta"}, store.EnqueueRequest{Type: kind})
	require.Equal(t, 1, r.reason(rows[1], ops.WhyAhead).Ahead)
	r.reason(rows[2], ops.WhyStarting)
	r.reason(rows[3], ops.WhyStarting)
}

func whyLock(t testing.TB, h Harness) {
	r := newRig(t, h)
	rows := r.Insert(t, store.EnqueueRequest{Type: kind, Lock: "l"}, store.EnqueueRequest{Type: kind, Lock: "l"}, store.EnqueueRequest{Type: kind, Lock: "l"})
	held := r.claim(want(kind, 3))
	require.Len(t, held, 1)
	e := r.reason(rows[2], ops.WhyLock)
	require.Equal(t, held[0].ID, e.Other)
	require.Equal(t, 1, e.Ahead)
	require.NotNil(t, e.Since)
}

func whySequence(t testing.TB, h Harness) {
	r := newSequenceRig(t, h)
	rows := r.Insert(t,
		store.EnqueueRequest{Type: kind, Sequence: "s"}, store.EnqueueRequest{Type: kind, Sequence: "s"}, store.EnqueueRequest{Type: kind, Sequence: "s"})
	held := r.claim(want(kind, 3))
	require.Len(t, held, 1)
	e := r.reason(rows[2], ops.WhySequence)
	require.Equal(t, rows[0], e.Other)
	require.Equal(t, 2, e.Ahead)
	r.settled(fails(held[0]))
	r.promoted(0)
	e = r.reason(rows[1], ops.WhyBlocked)
	require.Equal(t, rows[0], e.Other)
	require.Contains(t, e.Remedy, "leasehold sequence retry "+kind+" s")
}

func whyLimit(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.limits(store.TypeLimit{Name: kind, Types: []string{kind}, Most: 1})
	rows := r.Insert(t, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind})
	r.reason(rows[0], ops.WhyStarting)
	require.Len(t, r.claim(want(kind, 2)), 1)
	require.Contains(t, r.reason(rows[1], ops.WhyLimit).Text, "1 at once")
}

func whyRate(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.limits(store.TypeLimit{Name: kind, Types: []string{kind}, Rate: 0.01, Burst: 1})
	rows := r.Insert(t, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind})
	r.reason(rows[0], ops.WhyStarting)
	require.Len(t, r.claim(want(kind, 2)), 1)
	e := r.reason(rows[1], ops.WhyRate)
	require.Greater(t, *e.Starts, r.Now().Add(time.Minute))
	require.Less(t, *e.Starts, r.Now().Add(2*time.Minute))
}

func whyBatch(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	b, rows := r.batchOf(2, store.BatchRequest{})
	_, err := r.CancelBatch(r.ctx, b, "carol")
	require.NoError(t, err)
	e := r.reason(rows[0], ops.WhyBatch)
	require.Equal(t, "carol", e.By)
}

func whyAfter(t testing.TB, h Harness) {
	r := newRig(t, h)
	first := r.Insert(t, store.EnqueueRequest{Type: kind, In: time.Hour})[0]
	row := r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{first}})[0]
	require.Equal(t, first, r.reason(row, ops.WhyAfter).Other)
}

func whyFollows(t testing.TB, h Harness) {
	r := newRig(t, h)
	first := r.Insert(t, store.EnqueueRequest{Type: kind, Key: "k"})[0]
	r.claim(want(kind, 1))
	next, answer, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, Key: "k", OnLive: store.OnLiveAgain})
	require.NoError(t, err)
	require.Equal(t, store.EnqueuedFollows, answer)
	require.Equal(t, first, r.reason(next, ops.WhyFollows).Other)
}

func whyCondition(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.Insert(t, store.EnqueueRequest{Type: kind})[0]
	beat := func(c store.Condition) { t.Helper(); r.beat(store.Heartbeat{Condition: c}) }
	beat(store.Condition{Breakers: []store.OpenBreaker{{Types: []string{"x", kind}, Phase: task.Run, OpenFor: 60_000, Error: "connection refused\x00\u2028"}}})
	e := r.reason(row, ops.WhyBreaker)
	near(t, r.Now().Add(-time.Minute), *e.Since)
	require.Contains(t, e.Text, "connection refused")
	beat(store.Condition{Full: []store.FullType{{Types: []string{kind}, Workers: 3}}})
	require.Contains(t, r.reason(row, ops.WhySlots).Text, "all 3 slots are in use that agents have for type "+kind)
	beat(store.Condition{})
	r.reason(row, ops.WhyStarting)
	agents, err := r.ListAgents(r.ctx, false)
	require.NoError(t, err)
	require.Nil(t, agents[0].Condition)
}

func whyRunning(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.Insert(t, store.EnqueueRequest{Type: kind})[0]
	r.claim(want(kind, 1))
	e := r.reason(row, ops.WhyRunning)
	require.Equal(t, r.name, e.Agent)
	require.NotNil(t, e.Since)
	_, err := r.Cancel(r.ctx, row, "dave")
	require.NoError(t, err)
	require.Equal(t, "dave", r.reason(row, ops.WhyCancelling).By)
	w, err := r.explainer().Situation(r.ctx, row)
	require.NoError(t, err)
	near(t, r.Now(), w.Holder.SeenAt)
	near(t, r.Now().Add(presence), w.Holder.Until)
	r.Advance(t, presence+time.Minute)
	require.Contains(t, r.reason(row, ops.WhyAgentGone).Text, "its last heartbeat came")
	r.beat(store.Heartbeat{})
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Contains(t, r.reason(row, ops.WhyAgentGone).Text, "it exited at")
}

func whyFinished(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.Insert(t, store.EnqueueRequest{Type: kind})[0]
	r.settled(finish(r.claim(want(kind, 1))[0]))
	require.NotNil(t, r.reason(row, ops.WhyFinished).Since)
}
