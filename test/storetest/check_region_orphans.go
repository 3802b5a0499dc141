package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func regionOrphanChecks() []Check {
	return []Check{
		{"of the region and the type", regionOrphansCounted},
		{"those alone that are due", regionOrphansDue},
		{"with a tenant, and to be rolled back", regionOrphansOfAll},
		{"of many types and regions", regionOrphansMany},
		{"none that has spilled", regionOrphansSpilled},
	}
}

// regionOrphans lists rows of regions without an agent.
func (r *rig) regionOrphans() []store.RegionOrphan {
	r.t.Helper()
	list, err := r.RegionOrphans(r.ctx)
	require.NoError(r.t, err)
	return list
}

// joins starts a session of a region that declares types.
func (r *rig) joins(region string, workers int, types ...string) task.Session {
	r.t.Helper()
	a := agent("of " + region)
	a.Region, a.Workers, a.Types = region, workers, types
	s, err := r.Join(r.ctx, a)
	require.NoError(r.t, err)
	return s
}

func regionOrphansCounted(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.regionOrphans())
	r.insert(3)
	r.Insert(t, store.EnqueueRequest{Type: "nothing declares it"})
	require.Empty(t, r.regionOrphans(), "they are of no region")
	r.Insert(t, store.EnqueueRequest{Type: kind, Region: "sg"}, store.EnqueueRequest{Type: kind, Region: "sg"},
		store.EnqueueRequest{Type: kind, Region: "eu"}, store.EnqueueRequest{Type: "b", Region: "sg"})
	sg, eu := store.RegionOrphan{Region: "sg", Type: kind, Due: 2}, store.RegionOrphan{Region: "eu", Type: kind, Due: 1}
	b := store.RegionOrphan{Region: "sg", Type: "b", Due: 1}
	require.Equal(t, []store.RegionOrphan{eu, b, sg}, r.regionOrphans(), "an agent of no region takes none of them")
	r.joins("sg", 0, kind)
	require.Equal(t, []store.RegionOrphan{eu, b, sg}, r.regionOrphans(), "an observer takes nothing")
	s := r.joins("sg", 4, "c", kind)
	require.Equal(t, []store.RegionOrphan{eu, b}, r.regionOrphans())
	require.NoError(t, r.Leave(r.ctx, s))
	require.Equal(t, []store.RegionOrphan{eu, b, sg}, r.regionOrphans())
	r.joins("eu", 4, kind)
	require.Equal(t, []store.RegionOrphan{b, sg}, r.regionOrphans())
	r.Advance(t, presence+time.Minute)
	require.Equal(t, []store.RegionOrphan{eu, b, sg}, r.regionOrphans())
}

func regionOrphansDue(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.Insert(t, store.EnqueueRequest{Type: kind, Region: "sg", In: time.Hour, Priority: 3}, store.EnqueueRequest{Type: kind, Region: "sg"})
	one := []store.RegionOrphan{{Region: "sg", Type: kind, Due: 1}}
	require.Equal(t, one, r.regionOrphans())
	row := r.claimIn("sg", want(kind, 1))[0]
	require.Empty(t, r.regionOrphans(), "what runs does not wait")
	r.settled(retry(row, time.Minute))
	require.Empty(t, r.regionOrphans(), "nor what is due later")
	r.Advance(t, 2*time.Minute)
	require.Equal(t, one, r.regionOrphans())
	r.Advance(t, time.Hour)
	require.Equal(t, []store.RegionOrphan{{Region: "sg", Type: kind, Due: 2}}, r.regionOrphans())
}

func regionOrphansOfAll(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.Insert(t, store.EnqueueRequest{Type: kind, Region: "sg", Tenant: "acme"}, store.EnqueueRequest{Type: kind, Region: "sg", Tenant: "beta"},
		store.EnqueueRequest{Type: kind, Region: "sg", Tenant: "acme", In: time.Hour},
		store.EnqueueRequest{Type: kind, Region: "sg", Lock: "x"}, store.EnqueueRequest{Type: kind, Region: "sg", After: r.Insert(t, store.EnqueueRequest{Type: kind, In: farOff})})
	sg := func(n int64) []store.RegionOrphan { return []store.RegionOrphan{{Region: "sg", Type: kind, Due: n}} }
	require.Equal(t, sg(3), r.regionOrphans(), "what waits for another is not due")
	r.Insert(t, store.EnqueueRequest{Type: kind, Region: "sg", Priority: -3}, store.EnqueueRequest{Type: kind, Region: "sg", Priority: 5, Tenant: "acme"})
	require.Equal(t, sg(5), r.regionOrphans())
	row := r.claimIn("sg", wantOf(kind, task.Run, 1))[0]
	require.Equal(t, sg(4), r.regionOrphans())
	r.settled(ended(row, task.Rejected, task.StateRollbackPending))
	require.Equal(t, sg(5), r.regionOrphans(), "a rollback waits for an agent, too")
}

func regionOrphansMany(t testing.TB, h Harness) {
	r := newRig(t, h)
	var all []store.EnqueueRequest
	var want []store.RegionOrphan
	for _, region := range []string{"", "a", "b", "c"} {
		for _, typ := range []string{kind, "p", "q", "r", "s"} {
			for range 3 {
				all = append(all, store.EnqueueRequest{Type: typ, Region: region})
			}
			if region != "" && (region != "b" || typ != "q") {
				want = append(want, store.RegionOrphan{Region: region, Type: typ, Due: 3})
			}
		}
	}
	r.Insert(t, all...)
	r.joins("b", 1, "q")
	require.ElementsMatch(t, want, r.regionOrphans())
}

func regionOrphansSpilled(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.Insert(t, store.EnqueueRequest{Type: kind, Region: "sg"}, store.EnqueueRequest{Type: "b", Region: "sg"})
	r.Advance(t, 11*time.Minute)
	r.present()
	require.Equal(t, 1, r.spill(""))
	require.Equal(t, []store.RegionOrphan{{Region: "sg", Type: "b", Due: 1}}, r.regionOrphans())
}
