package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func tenantChecks() []Check {
	return []Check{
		{"they take turns", tenantTurns},
		{"the turns go on from claim to claim", tenantCursor},
		{"turns by weight", tenantWeights},
		{"rows without a tenant are one among them", tenantNone},
		{"within a tenant priority, due time, id", tenantOrder},
		{"a tenant with few rows leaves its turns to others", tenantFew},
		{"regions", tenantRegions},
		{"many tenants", tenantMany},
		{"rows to roll back", tenantRollbacks},
		{"rows of a batch that stops", tenantBatchStops},
		{"with a lock", tenantLocks},
		{"with a limit of the type", tenantTypeLimit},
		{"documents that are read apart", tenantDocuments},
		{"what is due next, and what waits", tenantLook},
		{"seen in each place", tenantSeen},
		{"agents that claim at once", tenantConcurrent},
	}
}

// tenantRig is a rig for rows with a tenant.
type tenantRig struct{ *lockRig }

func newTenantRig(t testing.TB, h Harness) *tenantRig { return &tenantRig{newLockRig(t, h)} }

// of inserts n due rows of kind of a tenant.
func (r *tenantRig) of(tenant string, n int) []task.ID {
	r.t.Helper()
	reqs := make([]store.EnqueueRequest, n)
	for i := range reqs {
		reqs[i] = store.EnqueueRequest{Type: kind, Tenant: tenant}
	}
	return r.Insert(r.t, reqs...)
}

// byTenant counts rows.
func byTenant(rows []task.Task) map[string]int {
	n := map[string]int{}
	for i := range rows {
		n[rows[i].Tenant]++
	}
	return n
}

func tenantTurns(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	a, b, c := r.of("a", 6), r.of("b", 2), r.of("c", 2)
	require.ElementsMatch(t, []task.ID{a[0], b[0], c[0]}, ids(r.claim(want(kind, 3))))
	require.ElementsMatch(t, []task.ID{a[1], b[1], c[1]}, ids(r.claim(want(kind, 3))))
	require.Equal(t, a[2:5], ids(r.claim(want(kind, 3))), "only one has rows")
	require.Equal(t, a[5:], ids(r.claim(want(kind, 3))))
	require.Empty(t, r.claim(want(kind, 3)))
}

func tenantCursor(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		r.of(name, 8)
	}
	total := map[string]int{}
	for i := range 10 {
		got := r.claim(want(kind, 2))
		require.Len(t, got, 2)
		require.Len(t, byTenant(got), 2, "one row of each")
		for tenant := range byTenant(got) {
			total[tenant]++
		}
		if i%5 == 4 {
			for tenant, n := range total {
				require.Equal(t, 2*(i+1)/5, n, "rows of %s", tenant)
			}
		}
	}
	require.Len(t, total, 5)
}

func tenantWeights(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.of("acme", 30)
	r.of("b", 30)
	r.of("c", 30)
	w := want(kind, 6)
	w.Weights = map[string]int{"acme": 4}
	require.Equal(t, map[string]int{"acme": 4, "b": 1, "c": 1}, byTenant(r.claim(w)))
	w.N = 1
	total := map[string]int{}
	for range 12 {
		for tenant := range byTenant(r.claim(w)) {
			total[tenant]++
		}
	}
	require.Equal(t, map[string]int{"acme": 8, "b": 2, "c": 2}, total, "one by one, too")
	w.N = 30
	got := byTenant(r.claim(w))
	require.Equal(t, 30, got["acme"]+got["b"]+got["c"])
	require.Equal(t, 18, got["acme"], "what is left of it")
}

func tenantNone(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.insert(20)
	r.of("a", 20)
	r.of("b", 20)
	for range 3 {
		require.Equal(t, map[string]int{"": 3, "a": 3, "b": 3}, byTenant(r.claim(want(kind, 9))))
	}
	require.Equal(t, map[string]int{"": 11, "a": 11, "b": 11}, byTenant(r.claim(want(kind, 100))))
}

func tenantOrder(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	in := func(tenant string, priority int, ago time.Duration) store.EnqueueRequest {
		return store.EnqueueRequest{Type: kind, Tenant: tenant, Priority: priority, RunAt: r.now().Add(-ago)}
	}
	due := r.now().Add(-time.Hour)
	got := r.Insert(t,
		in("a", 0, time.Minute), in("a", 0, 3*time.Minute), in("a", 10, time.Minute), in("a", -10, 4*time.Minute), in("a", 1, 2*time.Minute),
		store.EnqueueRequest{Type: kind, Tenant: "a", RunAt: due}, store.EnqueueRequest{Type: kind, Tenant: "a", RunAt: due},
		in("a", 10, -time.Hour), in("b", 10, -time.Hour), in("b", -10, time.Minute), in("c", 10, -time.Hour))
	require.Equal(t, []task.ID{got[2], got[9]}, ids(r.claim(want(kind, 2))), "one of each, and those in order")
	require.Equal(t, []task.ID{got[4], got[5], got[6]}, ids(r.claim(want(kind, 3))))
	require.Equal(t, []task.ID{got[1], got[0], got[3]}, ids(r.claim(want(kind, 10))))
	r.Advance(t, 2*time.Hour)
	require.Equal(t, []task.ID{got[7], got[8], got[10]}, ids(r.claim(want(kind, 10))))
}

func tenantFew(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	for i := range 40 {
		r.of(fmt.Sprintf("few %02d", i), 1+i%3)
	}
	big := r.of("big", 100)
	got := r.claim(want(kind, 41))
	require.Len(t, got, 41)
	require.Len(t, byTenant(got), 41, "one of each")
	got = r.claim(want(kind, 100))
	require.Len(t, got, 100, "no slot stays free while one has rows")
	require.Equal(t, 100-39, byTenant(got)["big"])
	got = r.claim(want(kind, 100))
	require.Equal(t, big[100-len(got):], ids(got))
	require.Len(t, got, 38)
}

func tenantRegions(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	in := func(region, tenant string) store.EnqueueRequest {
		return store.EnqueueRequest{Type: kind, Region: region, Tenant: tenant}
	}
	rows := r.Insert(t, in("sg", "a"), in("", "a"), in("sg", "b"), in("eu", "c"), in("", "d"), in("eu", "a"), in("sg", ""))
	require.Equal(t, []task.ID{rows[1], rows[4]}, ids(r.claim(want(kind, 10))), "an agent of no region")
	require.ElementsMatch(t, []task.ID{rows[0], rows[2], rows[6]}, ids(r.claimIn("sg", want(kind, 10))))
	require.ElementsMatch(t, []task.ID{rows[3], rows[5]}, ids(r.claimIn("eu", want(kind, 10))))
}

// tenantMany has more tenants than a claim looks at.
func tenantMany(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	const n = 700
	reqs := make([]store.EnqueueRequest, 0, 2*n)
	for i := range n {
		reqs = append(reqs, store.EnqueueRequest{Type: kind, Tenant: fmt.Sprint("t", i)},
			store.EnqueueRequest{Type: kind, Tenant: fmt.Sprint("later ", i), In: time.Hour})
	}
	r.Insert(t, reqs...)
	got := r.take(64)
	require.Len(t, got, 64)
	require.Len(t, byTenant(got), 64)
	for tries := 0; len(got) < n; tries++ {
		require.Less(t, tries, 100)
		got = append(got, r.take(64)...)
	}
	require.Len(t, byTenant(got), n)
	require.Empty(t, r.take(64))
	late := r.of("later 350", 1)
	require.Eventually(t, func() bool { return slices.Equal(late, ids(r.take(64))) }, 20*time.Second, 10*time.Millisecond,
		"after a round of many tenants in vain the next one comes a little later")
}

func tenantRollbacks(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.of("a", 3)
	r.of("b", 1)
	for _, row := range r.claim(want(kind, 4)) {
		r.settled(ended(row, task.Failed, task.StateRollbackPending))
	}
	w := wantOf(kind, task.Rollback, 2)
	require.Equal(t, map[string]int{"a": 1, "b": 1}, byTenant(r.claim(w)))
	require.Equal(t, map[string]int{"a": 2}, byTenant(r.claim(w)))
	require.Empty(t, r.claim(w))
}

func tenantBatchStops(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	id, rows := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, Tenant: "a"})
	other := r.of("a", 1)
	_, err := r.CancelBatch(r.ctx, id, "alice")
	require.NoError(t, err)
	require.Equal(t, other, ids(r.take(5)))
	_, ok, err := r.NextDue(r.ctx, store.Claim{Session: r.session, Wants: []store.Want{want(kind, 1)}})
	require.NoError(t, err)
	require.False(t, ok)
	r.steps()
	require.Equal(t, task.StateCancelled, r.state(rows[0]))
}

func tenantLocks(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	add := func(tenant, lock string) task.ID {
		return r.Insert(t, store.EnqueueRequest{Type: kind, Tenant: tenant, Lock: lock})[0]
	}
	first, second, free := add("a", "x"), add("b", "x"), add("c", "")
	got := r.take(5)
	require.ElementsMatch(t, []task.ID{first, free}, ids(got))
	require.Equal(t, task.HoldLock, r.get(second).Held)
	for _, row := range got {
		r.settled(finish(row))
	}
	r.promoted(1)
	require.Equal(t, []task.ID{second}, ids(r.take(5)))
	// One that has to wait for its lock takes the turn of its tenant only, also where that is none.
	d, e := r.of("d", 3), r.of("e", 3)
	require.ElementsMatch(t, []task.ID{d[0], e[0]}, ids(r.claim(want(kind, 2))))
	for i := range 2 { // the second one begins with it
		behind := add("", "x")
		require.ElementsMatch(t, []task.ID{d[i+1], e[i+1]}, ids(r.claim(want(kind, 3))))
		require.Equal(t, task.HoldLock, r.get(behind).Held)
	}
}

// tenantTypeLimit has less room than there are tenants: each gets its turn all the same.
func tenantTypeLimit(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	r.limits(limited(kind, 2))
	r.insert(4)
	for _, name := range []string{"a", "b", "c", "d"} {
		r.of(name, 4)
	}
	total := map[string]int{}
	for range 10 {
		got, rooms := r.claimRooms(want(kind, 5))
		require.Len(t, got, 2)
		require.Equal(t, store.Room{Limit: kind, Rows: 2}, rooms[kind])
		again, rooms := r.claimRooms(want(kind, 5))
		require.Empty(t, again)
		require.Equal(t, store.Room{Limit: kind}, rooms[kind])
		for _, row := range got {
			total[row.Tenant]++
			r.settled(finish(row))
		}
	}
	require.Equal(t, map[string]int{"": 4, "a": 4, "b": 4, "c": 4, "d": 4}, total)
}

func tenantLook(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	c := store.Claim{Session: r.session, Wants: []store.Want{want(kind, 1)}}
	next := func() (time.Duration, bool) {
		in, ok, err := r.NextDue(r.ctx, c)
		require.NoError(t, err)
		return in, ok
	}
	_, ok := next()
	require.False(t, ok)
	r.Insert(t, store.EnqueueRequest{Type: kind, Tenant: "b", In: 3 * time.Hour}, store.EnqueueRequest{Type: kind, Tenant: "a", In: time.Hour},
		store.EnqueueRequest{Type: kind, Tenant: "a", Priority: 5, In: 2 * time.Hour})
	in, ok := next()
	require.True(t, ok)
	require.InDelta(t, time.Hour, in, float64(slack))
	stats, err := r.Stats(r.ctx)
	require.NoError(t, err)
	require.Contains(t, stats.Waiting, store.TypeCount{Type: kind, State: task.StatePending, N: 3})
	require.Zero(t, stats.OldestDue[kind])
	r.Advance(t, 90*time.Minute)
	r.present()
	in, ok = next()
	require.True(t, ok)
	require.Zero(t, in)
	stats, err = r.Stats(r.ctx)
	require.NoError(t, err)
	require.InDelta(t, 30*time.Minute, stats.OldestDue[kind], float64(slack))
	require.Len(t, r.claim(want(kind, 5)), 1)
	in, ok = next()
	require.True(t, ok)
	require.InDelta(t, 30*time.Minute, in, float64(slack))
}

// tenantSeen looks at each place that shows a tenant, and at rows that came by each way.
func tenantSeen(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	for name, add := range r.ways() {
		id := add(store.EnqueueRequest{Type: kind, Tenant: name})
		require.Equal(t, name, r.get(id).Tenant)
		row := r.claim(want(kind, 1))[0]
		require.Equal(t, name, row.Tenant)
		again, err := r.Claimed(r.ctx, r.session, r.claims)
		require.NoError(t, err)
		require.Equal(t, name, again[0].Tenant)
		r.settled(finish(row))
		require.Equal(t, name, r.get(id).Tenant)
	}
	q := store.EnqueueRequest{Type: kind, Key: "k", Tenant: "a"}
	live := r.enqueue(q, true)
	q.OnLive, q.Tenant = store.OnLiveReplace, "b"
	_, answer, err := r.Enqueue(r.ctx, q)
	require.NoError(t, err)
	require.Equal(t, store.EnqueuedReplaced, answer)
	require.Equal(t, "b", r.get(live).Tenant)
	q.OnLive, q.Tenant = store.OnLiveAgain, "c"
	next, answer, err := r.Enqueue(r.ctx, q)
	require.NoError(t, err)
	require.Equal(t, store.EnqueuedFollows, answer)
	require.Equal(t, "c", r.get(next).Tenant)
	row := r.claim(want(kind, 5))
	require.Equal(t, []task.ID{live}, ids(row))
	r.settled(finish(row[0]))
	row = r.claim(want(kind, 5))
	require.Equal(t, []task.ID{next}, ids(row))
	require.Equal(t, "c", row[0].Tenant)
	r.settled(ended(row[0], task.Failed, task.StateFailed))
	_, err = r.Retry(r.ctx, next, "alice")
	require.NoError(t, err)
	require.Equal(t, "c", r.get(next).Tenant)
	require.Equal(t, []task.ID{next}, ids(r.claim(want(kind, 5))), "after a retry by an operator")
}

func tenantConcurrent(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	const tenants, each = 12, 10
	for i := range tenants {
		r.of(fmt.Sprint("t", i), each)
	}
	agents := []*rig{r.rig, r.other("second"), r.other("third")}
	found := make(chan []task.Task, len(agents))
	for _, a := range agents {
		go func() {
			var all []task.Task
			defer func() { found <- all }()
			for empty := 0; empty < 3; {
				a.claims++
				var cut bool
				got, err := a.Claim(a.ctx, store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{want(kind, 7)}, Cut: &cut})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				if all = append(all, got...); len(got) == 0 && !cut {
					empty++
				}
			}
		}()
	}
	seen := map[task.ID]bool{}
	for range agents {
		for _, row := range <-found {
			require.False(t, seen[row.ID], "task %d was claimed twice", row.ID)
			seen[row.ID] = true
		}
	}
	require.Len(t, seen, tenants*each)
}

// tenantDocuments has documents that are so large that a claim may read them apart from the rows: it says all the same whether there is more.
func tenantDocuments(t testing.TB, h Harness) {
	r := newTenantRig(t, h)
	big := document(300 << 10)
	claim := func(n int, bytes int64) (got []task.Task, cut bool) {
		r.claims++
		got, err := r.Claim(r.ctx, store.Claim{
			Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, n)}, Bytes: bytes, Cut: &cut,
		})
		require.NoError(t, err)
		for i := range got {
			sameJSON(t, string(big), got[i].Payload, "claimed")
		}
		return got, cut
	}
	for _, limits := range [][]store.TypeLimit{nil, {limited(kind, 100)}} {
		r.limits(limits...)
		for _, tenant := range []string{"a", "", "b", "c", "a", ""} {
			r.Insert(t, store.EnqueueRequest{Type: kind, Tenant: tenant, Payload: big})
		}
		got, cut := claim(3, 0)
		require.Len(t, got, 3)
		require.False(t, cut)
		got, cut = claim(10, 1)
		require.Len(t, got, 1, "the first always fits")
		require.True(t, cut)
		got, cut = claim(10, 100<<20)
		require.Len(t, got, 2)
		require.False(t, cut, "there is no more")
	}
}
