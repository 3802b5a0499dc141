package poll_test

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// tenants bounds each tenant of type a over all agents.
func tenants(of task.TenantLimit) func(*rig) {
	return func(r *rig) {
		t := *r.opts.Types[0]
		t.Tenant = of
		r.opts.Types = append([]*task.Type{&t}, r.opts.Types[1:]...)
	}
}

// perTenant counts what runs of each tenant, and what started.
type perTenant struct {
	mu      sync.Mutex
	running map[string]int
	started map[string]int
	most    map[string]int
}

func newPerTenant() *perTenant {
	return &perTenant{running: map[string]int{}, started: map[string]int{}, most: map[string]int{}}
}

// takes has attempts take d, and counts them.
func (p *perTenant) takes(d time.Duration) func(*lease.Lease, *task.Type) task.Outcome {
	return func(l *lease.Lease, t *task.Type) task.Outcome {
		of := l.Task().Tenant
		p.mu.Lock()
		p.running[of]++
		p.started[of]++
		p.most[of] = max(p.most[of], p.running[of])
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.running[of]--
		}()
		return takes(d)(l, t)
	}
}

func (p *perTenant) now(tenant string) (running, started int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[tenant], p.started[tenant]
}

// mostAtOnce returns how many ran of each tenant at most.
func (p *perTenant) mostAtOnce() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.most)
}

func ofTenant(name string) func(*store.EnqueueRequest) {
	return func(r *store.EnqueueRequest) { r.Tenant = name }
}

// Several agents together run as many of each tenant as its limit allows, no more, and all the time, also the one that does not declare it;
// and those that wait for room are no starvation.
func TestTheLimitOfTenantsHoldsOverAgentsAndIsUsed(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		seen, bound := newPerTenant(), tenants(task.TenantLimit{Limit: 2})
		does := doing(seen.takes(50 * time.Millisecond))
		agents := []*rig{newRig(t, db, bound, does), newRig(t, db, bound, does), newRig(t, db, does)}
		after(time.Second)
		for _, name := range []string{"a", "b", "c"} {
			agents[0].insert(250, ofTenant(name))
		}
		after(time.Second)
		sum, looks := 0, 0
		for range 2000 {
			after(time.Millisecond)
			n, _ := seen.now("b")
			sum, looks = sum+n, looks+1
		}
		require.Equal(t, map[string]int{"a": 2, "b": 2, "c": 2}, seen.mostAtOnce())
		require.Greater(t, float64(sum)/float64(looks), 1.9, "places are used while tasks wait")
		claims := agents[0].wire.count("claim")
		after(time.Second)
		require.Less(t, agents[0].wire.count("claim")-claims, 400)
		for _, r := range agents {
			require.NoError(t, r.engine.Health())
			r.drain()
		}
	})
}

// The rate of a tenant is what starts of it in a second, and no more; a type that is held by it for long is no starvation.
func TestTheRateOfTenantsIsWhatStarts(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		seen, bound := newPerTenant(), tenants(task.TenantLimit{Rate: 10, Burst: 1})
		agents := []*rig{newRig(t, db, bound, doing(seen.takes(0))), newRig(t, db, bound, doing(seen.takes(0)))}
		after(time.Second)
		agents[0].insert(400, ofTenant("a"))
		agents[1].insert(400, ofTenant("b"))
		after(time.Second)
		_, before := seen.now("a")
		after(30 * time.Second)
		_, started := seen.now("a")
		require.LessOrEqual(t, started-before, 301)
		require.Greater(t, started-before, 294)
		for _, r := range agents {
			require.NoError(t, r.engine.Health())
			r.drain()
		}
	})
}
