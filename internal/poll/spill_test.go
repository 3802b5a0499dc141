package poll_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// spilling is an agent of that region whose type "a" spills after five minutes, and whose type "b" never does.
func spilling(region string) func(*rig) {
	return func(r *rig) {
		a := declare("a", 0)
		a.Aliases, a.SpillAfter = []string{"a.old"}, 5*time.Minute
		r.opts.Declarations.Types = []*task.Type{a, declare("b", 0)}
		r.opts.Region = region
		r.opts.Poll = time.Hour
	}
}

func inRegion(region, typ string) func(*store.EnqueueRequest) {
	return func(q *store.EnqueueRequest) { q.Type, q.Region = typ, region }
}

// Rows of a region without agents run elsewhere once they have waited long enough, under the old name of their type as well; of a type that says
// nothing of it they never do.
func TestWhatWaitsTooLongForItsRegionRunsElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, spilling("eu"))
		ids := append(r.insert(3, inRegion("sg", "a")), r.insert(1, inRegion("sg", "a.old"))...)
		never, own := r.insert(1, inRegion("sg", "b")), r.insert(1, inRegion("eu", "a"))
		after(4*time.Minute + 55*time.Second)
		r.all(ids, task.StatePending, 0)
		r.all(own, task.StateSucceeded, 1)
		after(8 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		require.Equal(t, "sg", r.get(ids[0]).Region)
		require.InDelta(t, 4, testutil.ToFloat64(r.opts.Metrics.Spilled), 0)
		after(24 * time.Hour)
		r.all(never, task.StatePending, 0)
		r.drain()
	})
}

// More rows than one call takes over follow at once.
func TestManyRowsSpillAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, spilling(""))
		r.insert(store.SpillMost+200, inRegion("sg", "a"))
		after(5*time.Minute + 2*time.Second)
		require.InDelta(t, store.SpillMost+200, testutil.ToFloat64(r.opts.Metrics.Spilled), 0)
		r.drain()
	})
}

// Who claims nothing takes nothing over; what the store loses of a call is asked again.
func TestWhoClaimsNothingSpillsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		watching := newRig(t, db, spilling("eu"), func(r *rig) { r.opts.Workers, r.opts.Agent.Name = 0, "observer" })
		r := newRig(t, db, spilling("eu"))
		after(time.Second)
		r.order(db, store.Cordon)
		after(5 * time.Second)
		ids := r.insert(2, inRegion("sg", "a"))
		after(10 * time.Minute)
		r.all(ids, task.StatePending, 0)
		require.False(t, r.get(ids[0]).Spilled)
		lost := 0
		r.wire.setHook(func(op string) fault {
			if op == "spill" && lost < 2 {
				lost++
				return []fault{lostCall, lostReply}[lost-1]
			}
			return none
		})
		r.order(db, store.Uncordon)
		after(20 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
		watching.drain()
	})
}
