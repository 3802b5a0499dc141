package poll_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// order gives the rig's agent an order.
func (r *rig) order(db *model.Store, o store.AgentOrder) {
	r.t.Helper()
	_, err := db.OrderAgent(r.t.Context(), r.opts.Agent.Name, o, "alice")
	require.NoError(r.t, err)
}

// A cordoned agent finishes what runs, releases what it has claimed ahead, and claims nothing until it is uncordoned.
func TestACordonedAgentClaimsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, doing(takes(10*time.Second)))
		after(time.Second)
		running := r.insert(1)
		after(time.Second)
		require.Equal(t, 1, r.deeds.now("a"))
		r.order(db, store.Cordon)
		after(3 * time.Second)
		waiting := r.insert(20)
		for range 30 {
			after(time.Second)
			require.NoError(t, r.engine.Health())
		}
		r.all(running, task.StateSucceeded, 1)
		r.all(waiting, task.StatePending, 0)
		r.order(db, store.Uncordon)
		after(5 * time.Second)
		require.Positive(t, r.deeds.now("a"))
		after(5 * time.Minute)
		r.all(waiting, task.StateSucceeded, 1)
		r.drain()
	})
}

// What waits in the agent for a slot goes back at once, so that others can run it.
func TestACordonedAgentReleasesWhatItHasClaimed(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, doing(takes(400*time.Millisecond)))
		ids := r.insert(500)
		after(10 * time.Second)
		r.order(db, store.Cordon)
		after(5 * time.Second)
		held := 0
		for _, id := range ids {
			if r.get(id).State == task.StateRunning {
				held++
			}
		}
		require.Zero(t, held)
		require.Zero(t, r.deeds.now("a"))
		r.order(db, store.Uncordon)
		after(5 * time.Minute)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

// An operator's drain is passed on, and by whom.
func TestAnOrderToDrainIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var by []string
		r := newRig(t, db, alone, func(r *rig) { r.opts.Ordered = func(who string) { by = append(by, who) } })
		after(time.Second)
		r.order(db, store.Drain)
		after(10 * time.Second)
		require.Equal(t, []string{"alice"}, by, "once")
		r.drain()
	})
}
