package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// namedActions are those on named leases.
func (m *machine) namedActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"acquire":         m.acquire,
		"renew a lease":   func(t *rapid.T) { m.useLease(t, "renewing", Application.RenewLease) },
		"release a lease": func(t *rapid.T) { m.useLease(t, "releasing", Application.ReleaseLease) },
		"hold a lease":    m.holdLease,
		"end a hold":      m.endLeaseHold,
	}
}

// granted is a named lease as a holder once got it.
type granted struct {
	pair[task.Fence]
	name string
}

// heldLease is a transaction of an application's that holds a named lease.
type heldLease struct {
	granted
	ideal, real Application
}

func leaseNames(t *rapid.T) string { return rapid.SampledFrom([]string{"x", "x", "y"}).Draw(t, "name") }

// commits draws whether a transaction is committed: most are.
func commits(t *rapid.T) bool { return rapid.IntRange(0, 7).Draw(t, "roll back") > 0 }

func (m *machine) acquire(t *rapid.T) {
	ctx := m.begin()
	name, holder := leaseNames(t), rapid.SampledFrom([]string{"me", "you", "they"}).Draw(t, "holder")
	ttl, commit := length(t, "ttl", 4), commits(t)
	m.changed = true
	var g granted
	ask := func(f *task.Fence) func(Application) error {
		return func(a Application) (err error) {
			*f, err = a.Acquire(ctx, name, holder, ttl)
			return err
		}
	}
	m.inBothThen(commit, ask(&g.ideal), ask(&g.real))
	require.Equal(m.t, g.ideal > 0, g.real > 0, "whether %s gets %s for %s", holder, name, ttl)
	if g.ideal == 0 {
		return
	}
	known := place(m.fences(), onIdeal, g.ideal)
	require.Equal(m.t, known, place(m.fences(), onReal, g.real), "which fence %s gets for %s", holder, name)
	if known < 0 && commit {
		for _, before := range m.granted {
			require.Greater(m.t, g.real, before.real, "fences rise")
		}
		g.name = name
		m.granted = append(m.granted, g)
	}
}

func (m *machine) fences() []pair[task.Fence] {
	pairs := make([]pair[task.Fence], len(m.granted))
	for i, g := range m.granted {
		pairs[i] = g.pair
	}
	return pairs
}

// oneLease draws a lease that was once granted, mostly one of the last: by then another may have it, or none.
func (m *machine) oneLease(t *rapid.T) granted {
	if len(m.granted) == 0 {
		t.Skip("no lease was ever granted")
	}
	g := rapid.SampledFrom(m.granted[max(len(m.granted)-4, 0):]).Draw(t, "lease")
	if rapid.IntRange(0, 9).Draw(t, "other name") == 0 {
		g.name = leaseNames(t)
	}
	return g
}

type useOfLease = func(a Application, ctx context.Context, name string, f task.Fence) error

// useLease does something with a lease that is done at once.
func (m *machine) useLease(t *rapid.T, what string, use useOfLease) {
	ctx := m.begin()
	g, commit := m.oneLease(t), commits(t)
	if m.holdsOf(g.name) > 0 && what == "releasing" {
		t.Skip("it would wait for the transaction that holds the lease")
	}
	m.changed = true
	m.inBothThen(commit,
		func(a Application) error { return use(a, ctx, g.name, g.ideal) },
		func(a Application) error { return use(a, ctx, g.name, g.real) })
}

// holdsOf counts the open transactions that hold a lease of the name.
func (m *machine) holdsOf(name string) (n int) {
	for _, o := range m.heldLeases {
		if o.name == name {
			n++
		}
	}
	return n
}

// holdLease begins a transaction that holds a lease. On a store without locks on rows it ends at once.
func (m *machine) holdLease(t *rapid.T) {
	ctx := m.begin()
	g := m.oneLease(t)
	stays := m.keepsLeases() && len(m.heldLeases) < 2
	o := &heldLease{granted: g, ideal: m.ideal.Begin(m.t), real: m.real.Begin(m.t)}
	want := o.ideal.HoldLease(ctx, g.name, g.ideal)
	got := o.real.HoldLease(ctx, g.name, g.real)
	require.Equal(m.t, want == nil, got == nil, "holding %v: %v, %v", g, want, got)
	m.heldLeases = append(m.heldLeases, o)
	if want != nil || !stays {
		m.endHeld(ctx, o, want == nil && rapid.Bool().Draw(t, "commit"))
	}
}

// keepsLeases is keepsRows where there may be no row yet.
func (m *machine) keepsLeases() bool {
	if m.locks != nil {
		return *m.locks
	}
	r := store.EnqueueRequest{Type: "a"}
	m.added(pair[task.ID]{real: m.real.Insert(m.t, r)[0], ideal: m.ideal.Insert(m.t, r)[0]})
	m.pass(tick)
	return m.keepsRows(len(m.tasks) - 1)
}

// endLeaseHold ends a transaction that holds a lease, and may renew and release it before.
func (m *machine) endLeaseHold(t *rapid.T) {
	if len(m.heldLeases) == 0 {
		t.Skip("no lease is held")
	}
	ctx := m.begin()
	o := rapid.SampledFrom(m.heldLeases).Draw(t, "held")
	m.changed = true
	commit := commits(t)
	for _, use := range rapid.SampledFrom([][]useOfLease{
		{}, {}, {Application.RenewLease}, {Application.ReleaseLease}, {Application.RenewLease, Application.ReleaseLease},
	}).Draw(t, "uses") {
		if m.holdsOf(o.name) > 1 {
			break // a release would wait for the others
		}
		want, got := use(o.ideal, ctx, o.name, o.granted.ideal), use(o.real, ctx, o.name, o.granted.real)
		require.Equal(m.t, want == nil, got == nil, "%v: %v, %v", o.granted, want, got)
		if want != nil {
			commit = false
			break
		}
	}
	m.endHeld(ctx, o, commit)
}

func (m *machine) endHeld(ctx context.Context, o *heldLease, commit bool) {
	m.heldLeases = slices.DeleteFunc(m.heldLeases, func(other *heldLease) bool { return other == o })
	for _, a := range []Application{o.ideal, o.real} {
		if commit {
			require.NoError(m.t, a.Commit(ctx))
			continue
		}
		require.NoError(m.t, a.Rollback(ctx))
	}
}

// leaseView is a named lease with all that differs between two stores that are right taken out.
type leaseView struct {
	Name, Holder      string
	Fence             int // in granted
	Acquired, Expires int // halves of a step from now
}

func leaseViews(h Harness, t *scope, fences []pair[task.Fence], side func(pair[task.Fence]) task.Fence) []leaseView {
	var out []leaseView
	for _, l := range h.NamedLeases(t) {
		now := h.Now()
		out = append(out, leaseView{
			Name: l.Name, Holder: l.Holder, Fence: place(fences, side, l.Fence),
			Acquired: halves(now, l.AcquiredAt), Expires: halves(now, l.ExpiresAt),
		})
	}
	return out
}

// compareLeases asserts that the view of named leases is the same, after what may have changed it.
func (m *machine) compareLeases() {
	if !m.changed {
		return
	}
	m.changed = false
	want := leaseViews(m.ideal, m.t, m.fences(), onIdeal)
	require.Equal(m.t, want, leaseViews(m.real, m.t, m.fences(), onReal), "the named leases")
}

// sees draws what a session says of the clock with its heartbeat: nothing, or that it vouches for it, or that it has jumped.
func sees(t *rapid.T) func(h Harness) func() store.View {
	off, calm := time.Duration(0), 9*step
	switch rapid.SampledFrom([]string{"", "vouches", "vouches", "another time", "a jump", "a jump long ago"}).Draw(t, "clock") {
	case "":
		return func(Harness) func() store.View { return nil }
	case "another time":
		off = -later
	case "a jump":
		calm = 2 * step
	case "a jump long ago":
		calm = 3 * step
	}
	return func(h Harness) func() store.View { return seeing(h, off, calm, nil) }
}
