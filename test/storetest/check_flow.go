package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func flowChecks() []Check {
	return []Check{
		{"limits and rates", flowLimits},
		{"tenants", flowTenants},
		{"locks", flowLocks},
		{"the first of many", flowMany},
	}
}

// flow reads the flow of a store. The model has none.
func (r *rig) flow() store.Flow {
	r.t.Helper()
	s, ok := r.Harness.(ops.FlowStore)
	require.True(r.t, ok)
	f, err := ops.ReadFlow(r.ctx, s)
	require.NoError(r.t, err)
	near(r.t, r.Now(), f.Now)
	return f
}

func flowLimits(t testing.TB, h Harness) {
	r := newRig(t, h)
	f := r.flow()
	require.Empty(t, f.Limits)
	require.Empty(t, f.Tenants)
	require.Empty(t, f.Locks)
	r.limits(store.TypeLimit{Name: kind, Types: []string{kind, "suite.alias"}, Most: 2},
		store.TypeLimit{Name: "suite.worked", Types: []string{"suite.worked"}, Rate: 0.01, Burst: 2})
	r.Insert(t, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind},
		store.EnqueueRequest{Type: "suite.alias"})
	r.Insert(t, store.EnqueueRequest{Type: "suite.worked"}, store.EnqueueRequest{Type: "suite.worked"}, store.EnqueueRequest{Type: "suite.worked"})
	require.Len(t, r.claim(want(kind, 1)), 1)
	f = r.flow()
	require.Len(t, f.Limits, 2)
	l := f.Limits[0]
	require.Equal(t, store.FlowLimit{
		FlowBound: store.FlowBound{Limit: 2, Running: 1}, Name: kind, Types: []string{"suite.alias", kind}, Due: 3,
	}, l)
	require.False(t, l.Full())
	require.InDelta(t, 2, f.Limits[1].Tokens, 0.01)
	require.Zero(t, f.Limits[1].NextS)
	require.EqualValues(t, 3, f.Limits[1].Due)

	require.Len(t, r.claim(want(kind, 5)), 1)
	require.Len(t, r.claim(want("suite.worked", 5)), 2)
	f = r.flow()
	require.True(t, f.Limits[0].Full())
	require.Equal(t, 2, f.Limits[0].Running)
	require.True(t, f.Limits[1].Full())
	require.InDelta(t, 100, f.Limits[1].NextS, 20)
	require.EqualValues(t, 1, f.Limits[1].Due)
}

func flowTenants(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.limits(each(kind, 2))
	r.of("a", 5)
	r.of("b", 1)
	r.Insert(t, store.EnqueueRequest{Type: kind, Tenant: "a", Region: "sg"}, store.EnqueueRequest{Type: "suite.zzz", Tenant: `"><b>`})
	require.Len(t, r.claim(want(kind, 2)), 2)
	f := r.flow()
	require.Equal(t, []store.FlowTenant{
		{FlowBound: store.FlowBound{Limit: 2, Running: 1}, Type: kind, Tenant: "a", Waiting: 5, Of: kind},
		{Type: "suite.zzz", Tenant: `"><b>`, Waiting: 1},
	}, f.Tenants)
	require.Len(t, r.claim(want(kind, 2)), 1)
	require.True(t, r.flow().Tenants[0].Full())

	r.limits(eachRated(kind, 36, 2))
	require.InDelta(t, 2, r.flow().Tenants[0].Tokens, 0.1, "it is new")
}

func flowLocks(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	rows := r.locked("l", 3)
	r.locked("free", 1)
	held := r.take(3)
	require.Len(t, held, 2)
	f := r.flow()
	require.Len(t, f.Locks, 1, "nobody waits for the other")
	l := f.Locks[0]
	require.NotNil(t, l.Since)
	l.Since = nil
	require.Equal(t, store.FlowLock{Lock: "l", Task: rows[0], Type: kind, State: task.StateRunning, Waiting: 2, Next: rows[1]}, l)
}

func flowMany(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	for i := range store.FlowTenants + 5 {
		r.of(fmt.Sprintf("t%03d", i), 1)
	}
	reqs := make([]store.EnqueueRequest, 250)
	for i := range reqs {
		reqs[i] = store.EnqueueRequest{Type: kind, Tenant: "t000"}
	}
	r.Insert(t, reqs...)
	f := r.flow()
	require.Len(t, f.Tenants, store.FlowTenants)
	require.True(t, f.MoreTenants)
	require.False(t, f.MoreLocks)
	require.Equal(t, "t000", f.Tenants[0].Tenant)
	require.EqualValues(t, 200, f.Tenants[0].Waiting)
	require.True(t, f.Tenants[0].Capped)
	require.False(t, f.Tenants[1].Capped)
}
