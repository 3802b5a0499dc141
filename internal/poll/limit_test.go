package poll_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// limit bounds type a over all agents.
func limit(most int) func(*rig) {
	return func(r *rig) {
		t := *r.opts.Types[0]
		t.Limit = most
		r.opts.Types = append([]*task.Type{&t}, r.opts.Types[1:]...)
	}
}

// slowly has attempts of type a take d, and others none.
func slowly(d time.Duration) func(*lease.Lease, *task.Type) task.Outcome {
	return func(l *lease.Lease, t *task.Type) task.Outcome {
		if t.Name == "a" {
			return takes(d)(l, t)
		}
		return succeed(l, t)
	}
}

// Several agents together run as many of a type as its limit allows, no more, and all the time: also the ones that do not declare it.
func TestALimitHoldsOverAgentsAndIsUsed(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		agents := []*rig{
			newRig(t, db, limit(5), doing(takes(50*time.Millisecond))), newRig(t, db, limit(5), doing(takes(50*time.Millisecond))),
			newRig(t, db, doing(takes(50*time.Millisecond))),
		}
		after(time.Second)
		agents[0].insert(2000)
		after(time.Second)
		most, sum, looks := 0, 0, 0
		for range 2000 {
			after(time.Millisecond)
			n := 0
			for _, r := range agents {
				n += r.deeds.now("a")
			}
			most, sum, looks = max(most, n), sum+n, looks+1
		}
		require.Equal(t, 5, most)
		require.Greater(t, float64(sum)/float64(looks), 4.75, "places are used while tasks wait")
		for _, r := range agents {
			require.NoError(t, r.engine.Health())
			r.drain()
		}
	})
}

// A type that its limit holds is no starvation, costs few calls, and keeps nothing from types that have none.
func TestWhatALimitHoldsIsNoStarvation(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		holder := newRig(t, db, limit(1), alone, doing(takes(time.Hour)), func(r *rig) { r.opts.Types[0].Policy.Timeout = 2 * time.Hour })
		after(time.Second)
		holder.insert(10)
		after(time.Second)
		r := newRig(t, db, limit(1), doing(slowly(time.Second)))
		after(5 * time.Second)
		claims, looks, idles := r.wire.count("claim"), r.wire.count("next_due"), r.wire.count("idle")
		after(time.Minute)
		require.NoError(t, r.engine.Health())
		require.Less(t, r.wire.count("claim")-claims, 60*30)
		require.Less(t, r.wire.count("next_due")-looks, 60*3)
		require.Less(t, r.wire.count("idle")-idles, 5)
		began := time.Now()
		ids := r.insert(1, of("b"))
		for r.get(ids[0]).State != task.StateSucceeded {
			after(time.Millisecond)
		}
		require.Less(t, time.Since(began), 20*time.Millisecond)
		require.Zero(t, r.deeds.now("a"))
		holder.drain()
		r.drain()
	})
}

// Nothing of a type with a limit is claimed ahead of a free slot.
func TestNothingIsClaimedAheadOfALimit(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, limit(100), doing(takes(3*time.Millisecond)))
		r.insert(3000)
		most := 0
		for range 500 {
			after(time.Millisecond)
			stats, err := db.List(t.Context(), store.TaskFilter{States: []task.State{task.StateRunning}, Limit: 1000})
			require.NoError(t, err)
			most = max(most, len(stats)-r.deeds.now("a"))
		}
		require.LessOrEqual(t, most, 4, "what has ended and is not settled yet, but nothing that waits for a slot")
		r.drain()
	})
}

// The place of an attempt that ends is used again at once where it ran.
func TestAPlaceIsUsedAgainAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, limit(1), doing(takes(100*time.Millisecond)))
		after(time.Second)
		r.insert(20)
		began := time.Now()
		for len(r.deeds.started()) < 20 {
			after(time.Millisecond)
		}
		require.Less(t, time.Since(began), 19*110*time.Millisecond)
		r.drain()
	})
}

// A new configuration's limit holds from the first claim under it.
func TestALimitComesWithAReplacement(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, doing(takes(50*time.Millisecond)))
		r.insert(1000)
		after(time.Second)
		d := r.opts.Declarations
		lower := *d.Types[0]
		lower.Limit = 2
		d.Types = []*task.Type{&lower}
		r.engine.Replace(d)
		after(5 * time.Second)
		for range 500 {
			after(time.Millisecond)
			require.LessOrEqual(t, r.deeds.now("a"), 2)
		}
		r.engine.Replace(r.opts.Declarations)
		after(5 * time.Second)
		require.Equal(t, 4, r.deeds.now("a"), "it goes with the configuration")
		r.drain()
	})
}

// Several agents together start as many of a type as its rate says, within 2 % over a minute, and in no second more than the burst and
// twice the rate.
func TestARateHoldsOverAgents(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		rate := func(r *rig) {
			t := *r.opts.Types[0]
			t.Rate, t.Burst = 20, 5
			r.opts.Types = []*task.Type{&t}
			r.deeds.do = takes(20 * time.Millisecond)
		}
		agents := []*rig{newRig(t, db, rate), newRig(t, db, rate), newRig(t, db, rate)}
		after(time.Second)
		agents[0].insert(1300)
		after(time.Second)
		from := time.Now()
		after(time.Minute)
		var starts []time.Time
		for _, r := range agents {
			require.NoError(t, r.engine.Health())
			for _, s := range r.deeds.started() {
				if s.at.After(from) {
					starts = append(starts, s.at)
				}
			}
			r.drain()
		}
		require.InEpsilon(t, 20*60, len(starts), 0.02)
		slices.SortFunc(starts, time.Time.Compare)
		first := 0
		for i, at := range starts {
			for at.Sub(starts[first]) >= time.Second {
				first++
			}
			require.LessOrEqual(t, i-first+1, 5+2*20)
		}
		require.Less(t, agents[0].wire.count("claim"), 62*150, "it does not spin")
	})
}
