package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func tenantLimitChecks() []Check {
	return []Check{
		{"never more of a tenant than its limit, over all agents", tenantLimitBounds},
		{"a claim that takes a tenant's last row has none wait", tenantLimitLast},
		{"runs, rollbacks and aliases share it", tenantLimitShared},
		{"beside the type's own limit and rate", tenantLimitBeside},
		{"what runs, however it is held, and ran before counts", tenantLimitHolds},
		{"what may still be at work keeps its place", tenantLimitKeeps},
		{"it is in force while it is declared, the newest one", tenantLimitDeclared},
		{"many tenants that have no room", tenantLimitMany},
		{"no more start than the burst and what the rate brings", tenantRate},
		{"what never started gives its token back", tenantRateBack},
		{"jumps of the clock, and a limit that comes back, bring one burst at most", tenantRateJumps},
		{"what waits for its lock takes no place", tenantLimitLocks},
		{"agents that claim at once", tenantLimitConcurrent},
	}
}

// each is what bounds the tenants of a type without aliases.
func each(typ string, most int) store.TypeLimit {
	return store.TypeLimit{Name: typ, Types: []string{typ}, Tenant: store.TenantLimit{Most: most}}
}

// eachRated is each of a rate, in starts an hour.
func eachRated(typ string, perHour float64, burst int) store.TypeLimit {
	return store.TypeLimit{Name: typ, Types: []string{typ}, Tenant: store.TenantLimit{Rate: perHour / 3600, Burst: burst}}
}

func tenantLimitBounds(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	o := r.other("second")
	a, _ := r.of("a", 10), r.of("b", 1)
	r.insert(5)
	r.limits(each(kind, 2))
	o.learns()
	got, rooms := r.claimRooms(want(kind, 20))
	require.Equal(t, map[string]int{"a": 2, "b": 1, "": 5}, byTenant(got), "rows without a tenant are not bounded")
	require.True(t, rooms[kind].Tenants, "a has more")
	more, rooms := o.claimRooms(want(kind, 20))
	require.Empty(t, more)
	require.True(t, rooms[kind].Tenants)
	r.of("b", 1)
	o.present()
	got2, rooms := o.claimRooms(want(kind, 1))
	require.Equal(t, map[string]int{"b": 1}, byTenant(got2), "a has no room, and stops nothing")
	require.False(t, rooms[kind].Tenants, "it got what it wanted")
	for i := range got {
		if got[i].ID == a[0] {
			r.settled(finish(got[i]))
		}
	}
	w := want(kind, 5)
	w.Freed = []string{"a", "x"}
	require.Equal(t, a[2:3], ids(r.claim(w)))
	r.limits(each(kind, 1))
	require.Empty(t, r.claim(want(kind, 5)), "a lower limit stops nothing that runs, and lets nothing start")
}

func tenantLimitLast(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.limits(each(kind, 1))
	for _, name := range []string{"a", "b"} { // the first claim finds the tenant beside rows without one, of which there are none
		r.of(name, 1)
		got, rooms := r.claimRooms(want(kind, 3))
		require.Equal(t, map[string]int{name: 1}, byTenant(got))
		require.False(t, rooms[kind].Tenants, "nothing more waits")
	}
}

func tenantLimitShared(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.Insert(t, store.EnqueueRequest{Type: "new", Tenant: "a"})
	r.settled(ended(r.claim(want("new", 1))[0], task.Failed, task.StateRollbackPending))
	r.Insert(t, store.EnqueueRequest{Type: "old", Tenant: "a"}, store.EnqueueRequest{Type: "new", Tenant: "a"},
		store.EnqueueRequest{Type: "old", Tenant: "a"}, store.EnqueueRequest{Type: "old", Tenant: "b"})
	l := each("new", 2)
	l.Types = []string{"new", "old"}
	r.limits(l)
	rollback := wantOf("new", task.Rollback, 2)
	got := r.claim(want("new", 2), rollback, want("old", 5))
	require.Equal(t, map[string]int{"a": 2, "b": 1}, byTenant(got))
	require.Empty(t, r.claim(want("old", 1), want("new", 1), rollback))
	for i := range got {
		r.settled(finish(got[i]))
	}
	require.Equal(t, map[string]int{"a": 2}, byTenant(r.claim(want("old", 5), want("new", 5), rollback)))
}

func tenantLimitBeside(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	for _, name := range []string{"a", "b", "c"} {
		r.of(name, 9)
	}
	l := each(kind, 2)
	l.Most = 5
	r.limits(l)
	got, rooms := r.claimRooms(want(kind, 20))
	require.Len(t, got, 5)
	for name, n := range byTenant(got) {
		require.LessOrEqual(t, n, 2, name)
	}
	require.Equal(t, 5, rooms[kind].Rows)
	r.settled(finish(got[0]))
	require.Len(t, r.claim(want(kind, 20)), 1)
	rated := eachRated(kind, 1, 2)
	rated.Rate, rated.Burst, rated.Tenant.Most = 1.0/3600, 4, 9
	r.limits(rated)
	got = r.claim(want(kind, 20))
	require.Len(t, got, 4, "the rate of the type")
	for name, n := range byTenant(got) {
		require.LessOrEqual(t, n, 2, name)
	}
	require.Empty(t, r.claim(want(kind, 20)))
}

func tenantLimitHolds(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.of("a", 9)
	got := r.claim(want(kind, 3))
	r.limits(each(kind, 4))
	require.Len(t, r.claim(want(kind, 5)), 1, "three ran before there was a limit")
	r.settled(finish(got[0]), retry(got[1], time.Hour))
	require.Len(t, r.claim(want(kind, 5)), 2)
	r.Advance(t, 2*time.Minute)
	r.limits(each(kind, 4))
	require.Empty(t, r.claim(want(kind, 5)))
	answers, err := r.Renew(r.ctx, r.session, []store.Renewal{{ID: got[2].ID, Fence: got[2].Fence, Window: window, Detach: true}})
	require.NoError(t, err)
	require.Equal(t, same(store.Applied, 1), answers)
	r.Advance(t, later)
	o := r.other("second")
	o.learns()
	require.Empty(t, o.claim(want(kind, 5)), "an attempt whose lease has expired counts until it is settled")
	reaped := o.sweep(9)
	require.Len(t, reaped, 4)
	require.Empty(t, o.claim(want(kind, 5)))
	o.settled(finish(reaped[0].Task))
	require.Len(t, o.claim(want(kind, 5)), 1)
}

func tenantLimitKeeps(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.of("a", 6)
	b := r.of("b", 6)
	r.limits(each(kind, 2))
	rows := r.claim(want(kind, 9))
	require.Len(t, rows, 4)
	for _, row := range rows {
		end := finish(row)
		if row.Tenant == "a" {
			end = ended(row, task.TimedOut, task.StateFailed)
			end.Next.AfterLease = true
		}
		r.settled(end)
	}
	require.Equal(t, b[2:4], ids(r.claim(want(kind, 9))), "of the other one it is known that they have ended")
	r.Advance(t, window-time.Minute)
	r.limits(each(kind, 2))
	require.Empty(t, r.claim(want(kind, 9)))
	r.Advance(t, -day)
	r.limits(each(kind, 2))
	for range 2 {
		r.Insert(t, store.EnqueueRequest{Type: kind, Tenant: "a"})
	}
	require.Empty(t, r.claim(want(kind, 9)))
	r.Advance(t, window+time.Minute)
	r.limits(each(kind, 2))
	require.Equal(t, map[string]int{"a": 2}, byTenant(r.claim(want(kind, 9))), "and for no longer after the clock was set back")
}

func tenantLimitDeclared(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	o := r.other("second")
	r.of("a", 20)
	r.limits(each(kind, 1))
	require.LessOrEqual(t, len(o.claim(want(kind, 5))), 1, "by a session that may not know of it yet")
	o.learns()
	require.LessOrEqual(t, len(o.claim(want(kind, 5))), 1)
	o.limits(each(kind, 3))
	r.limits(each(kind, 1))
	require.Len(t, r.claim(want(kind, 9)), 2, "the newest")
	require.NoError(t, o.Leave(r.ctx, o.session))
	r.limits(each(kind, 1))
	require.Empty(t, r.claim(want(kind, 9)))
	r.limits()
	require.Len(t, r.claim(want(kind, 9)), 9)
}

// tenantLimitMany has more tenants without room than a claim looks at, and one that has some.
func tenantLimitMany(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	const n = 300
	reqs := make([]store.EnqueueRequest, 0, 2*n)
	for i := range n {
		q := store.EnqueueRequest{Type: kind, Tenant: fmt.Sprintf("t%03d", i)}
		reqs = append(reqs, q, q)
	}
	r.Insert(t, reqs...)
	r.limits(each(kind, 1))
	var got []task.Task
	all := func(n int) {
		t.Helper()
		for tries := 0; len(got) < n; tries++ {
			require.Less(t, tries, 100)
			got = append(got, r.take(64)...)
		}
		require.Len(t, got, n)
	}
	all(n)
	require.Len(t, byTenant(got), n)
	for range 5 {
		require.Empty(t, r.take(64))
	}
	last := got[len(got)-1]
	r.settled(finish(last))
	w := want(kind, 64)
	w.Freed = []string{last.Tenant}
	require.Eventually(t, func() bool {
		more := r.claim(w)
		return len(more) == 1 && more[0].Tenant == last.Tenant
	}, 20*time.Second, 10*time.Millisecond)
	r.of("z", 2)
	require.Eventually(t, func() bool { return len(r.take(64)) == 1 }, 20*time.Second, 10*time.Millisecond)
	_, rooms := r.claimRooms(want(kind, 64))
	require.Contains(t, rooms, kind)
}

func tenantRate(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.of("a", 20)
	b := r.of("b", 4)
	r.limits(eachRated(kind, 10, 3))
	got, rooms := r.claimRooms(want(kind, 20))
	require.Equal(t, map[string]int{"a": 3, "b": 3}, byTenant(got))
	require.True(t, rooms[kind].Tenants)
	for _, row := range got {
		r.settled(finish(row))
	}
	none, rooms := r.claimRooms(want(kind, 5))
	require.Empty(t, none, "ends make no room")
	require.True(t, rooms[kind].Tenants)
	if next := rooms[kind].TenantNext; next != 0 { // a hint
		require.InDelta(t, (6 * time.Minute).Seconds(), next.Seconds(), slack.Seconds())
	}
	r.Advance(t, 13*time.Minute)
	r.limits(eachRated(kind, 10, 3))
	require.Eventually(t, func() bool { got = r.claim(want(kind, 5)); return len(got) > 0 }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, map[string]int{"a": 2, "b": 1}, byTenant(got))
	require.Equal(t, b[3], got[len(got)-1].ID)
	r.Advance(t, 10*time.Hour)
	r.limits(eachRated(kind, 10, 3))
	_, err := r.Maintain(r.ctx, retained)
	require.NoError(t, err)
	require.Eventually(t, func() bool { got = r.claim(want(kind, 5)); return len(got) > 0 }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, map[string]int{"a": 3}, byTenant(got), "no more than the burst at once")
	require.Empty(t, r.claim(want(kind, 5)))
}

func tenantRateBack(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.of("a", 20)
	r.limits(eachRated(kind, 1, 4))
	got := r.claim(want(kind, 9))
	require.Len(t, got, 4)
	require.Empty(t, r.claim(want(kind, 9)))
	r.settled(release(got[0]), retry(got[1], time.Hour), finish(got[2]))
	require.Equal(t, same(store.Ended, 1), r.settle(release(got[0])), "a repeat")
	w := want(kind, 9)
	w.Freed = []string{"a"}
	var again []task.Task
	require.Eventually(t, func() bool { again = r.claim(w); return len(again) > 0 }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, []task.ID{got[0].ID}, ids(again))
	r.settled(finish(again[0]))
	require.Empty(t, r.claim(w))
}

func tenantRateJumps(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.of("a", 20)
	r.limits(eachRated(kind, 10, 4))
	require.Len(t, r.claim(want(kind, 3)), 3)
	r.Advance(t, -day)
	r.limits(eachRated(kind, 10, 4))
	rows := r.Insert(t, store.EnqueueRequest{Type: kind, Tenant: "a"}, store.EnqueueRequest{Type: kind, Tenant: "a"},
		store.EnqueueRequest{Type: kind, Tenant: "a"})
	require.Equal(t, rows[:1], ids(r.claim(want(kind, 9))), "one was left")
	r.Advance(t, 7*time.Minute)
	r.limits(eachRated(kind, 10, 4))
	require.Eventually(t, func() bool { return len(r.claim(want(kind, 9))) == 1 }, 20*time.Second, 10*time.Millisecond, "and the rate goes on")
	r.limits()
	r.limits(eachRated(kind, 10, 4))
	require.Empty(t, r.claim(want(kind, 9)), "one that comes back brings no new burst")
	r.Advance(t, 10*day)
	r.limits(eachRated(kind, 10, 4))
	var got []task.Task
	require.Eventually(t, func() bool { got = append(got, r.claim(want(kind, 9))...); return len(got) > 0 }, 20*time.Second, 10*time.Millisecond)
	require.Len(t, got, 4)
	require.Empty(t, r.claim(want(kind, 9)))
}

func tenantLimitLocks(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	add := func(tenant, lock string) task.ID {
		return r.Insert(t, store.EnqueueRequest{Type: kind, Tenant: tenant, Lock: lock})[0]
	}
	r.limits(each(kind, 1))
	first := add("b", "x")
	require.Equal(t, []task.ID{first}, ids(r.claim(want(kind, 1))))
	locked, free := add("a", "x"), add("a", "")
	got := r.take(5)
	if len(got) == 0 {
		got = r.take(5)
	}
	require.Equal(t, []task.ID{free}, ids(got))
	require.Equal(t, task.HoldLock, r.get(locked).Held)
}

func tenantLimitConcurrent(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	const most = 2
	var all []task.ID
	names := []string{"a", "b", "c"}
	for _, name := range names {
		all = append(all, r.of(name, 25)...)
	}
	agents := []*rig{r.rig}
	for range 3 {
		agents = append(agents, r.other("another"))
	}
	for _, o := range agents {
		o.limits(each(kind, most))
	}
	var seen tally
	var finished atomic.Int64
	running := map[string]*atomic.Int64{}
	for _, name := range names {
		running[name] = new(atomic.Int64)
	}
	together(agents, func(ctx context.Context, r *rig) error {
		for finished.Load() < int64(len(all)) {
			r.claims++
			got, err := r.Claim(ctx, store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, 4)}})
			if err != nil {
				return err
			}
			// A row is counted after its claim and no longer than until its settlement, so no more than run are.
			for _, row := range got {
				if n := running[row.Tenant].Add(1); n > most {
					return fmt.Errorf("%d tasks of tenant %s run", n, row.Tenant)
				}
			}
			seen.add(got...)
			for _, row := range got {
				running[row.Tenant].Add(-1)
				if _, err := r.Settle(ctx, r.session, []store.Settlement{finish(row)}); err != nil {
					return err
				}
				finished.Add(1)
			}
		}
		return nil
	})
	seen.once(t, all)
}
