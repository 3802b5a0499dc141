package poll_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// short gives the types of a rig a timeout of a second.
func short(r *rig) {
	for _, t := range r.opts.Types {
		t.Policy.Timeout = time.Second
	}
}

func TestSlowClaimsCostNoAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, short, func(r *rig) { r.deeds.do = takes(900 * time.Millisecond) })
		after(2 * time.Second)
		r.wire.setSlow("claim", 3*time.Second)
		ids := r.insert(10)
		after(time.Minute)
		r.all(ids, task.StateSucceeded, 1)
		for _, id := range ids {
			require.Equal(t, 1, r.get(id).Attempt)
		}
		r.drain()
	})
}

func TestClaimThatIsReadBackLateCostsNoAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, short, func(r *rig) { r.deeds.do = takes(900 * time.Millisecond) })
		after(2 * time.Second)
		r.wire.setHook(func(op string) fault {
			switch op {
			case "claim":
				return lostReply
			case "claimed":
				return lostCall
			}
			return none
		})
		ids := r.insert(3)
		after(5 * time.Second)
		r.wire.setHook(nil)
		after(time.Minute)
		r.all(ids, task.StateSucceeded, 1)
		for _, id := range ids {
			require.Equal(t, 1, r.get(id).Attempt)
		}
		r.drain()
	})
}

func TestHungStoreBoundsTheHardStop(t *testing.T) {
	for _, op := range []string{"claim", "sweep", "idle", "next_due", "settle", "present", "every"} {
		t.Run(op, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *model.Store) {
				var stopped atomic.Int64
				r := newRig(t, store, func(r *rig) {
					r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
						<-l.Context().Done()
						stopped.Store(time.Now().UnixNano())
						return l.Cause().Outcome()
					}
				})
				r.insert(1)
				after(4 * time.Second)
				require.Len(t, r.deeds.started(), 1)
				r.wire.setHook(func(o string) fault {
					if op == o || op == "every" {
						return hung
					}
					return none
				})
				r.insert(1)
				after(1500 * time.Millisecond)
				began := time.Now()
				r.engine.Drain()
				after(time.Second)
				r.cancel()
				<-r.over
				after := time.Unix(0, stopped.Load()).Sub(began)
				require.LessOrEqual(t, after, time.Second, "attempts are stopped whatever the store does")
				require.LessOrEqual(t, time.Since(began), 16*time.Second)
			})
		})
	}
}

func TestHungStoreDoesNotEatTheDrain(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			r.opts.Drain = 5 * time.Second
			r.opts.Agent.Presence = 10 * time.Minute // stays, whatever the store does
			r.deeds.do = takes(time.Minute)
			r.opts.Types[0].Policy.Timeout = time.Hour
		})
		r.insert(1)
		after(4 * time.Second)
		r.wire.setHook(func(op string) fault {
			if op == "claim" || op == "sweep" {
				return hung
			}
			return none
		})
		r.insert(1)
		after(1500 * time.Millisecond)
		began := time.Now()
		r.drain()
		require.LessOrEqual(t, time.Since(began), 5*time.Second)
	})
}

func TestNothingStartsOnceDrainingHasBegun(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.deeds.do = takes(time.Minute) })
		after(2 * time.Second)
		r.wire.setSlow("claim", 500*time.Millisecond)
		ids := r.insert(4)
		after(250 * time.Millisecond)
		r.drain()
		r.all(ids, task.StatePending, 0)
		for _, id := range ids {
			require.Zero(t, r.get(id).Attempt)
		}
	})
}

func TestWaitingForTheStoreIsNoIllness(t *testing.T) {
	for what, f := range map[string]fault{"hung": hung, "refused": lostCall} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *model.Store) {
				r := newRig(t, store, func(r *rig) {
					r.opts.Poll = 50 * time.Millisecond
					r.wire.hook = func(op string) fault {
						if op == "idle" || op == "next_due" {
							return f
						}
						return none
					}
				})
				for range 400 {
					after(100 * time.Millisecond)
					require.NoError(t, r.engine.Health())
				}
				r.wire.setHook(func(op string) fault { return f })
				for range 600 {
					after(100 * time.Millisecond)
					require.NoError(t, r.engine.Health())
				}
				r.wire.setHook(nil)
				after(20 * time.Second)
				require.NoError(t, r.engine.Health())
				r.drain()
			})
		})
	}
}

func TestOutageThatAllAgentsSeeLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		half := func(r *rig) { r.deeds.do = takes(12 * time.Second) }
		one := newRig(t, store, half)
		after(1300 * time.Millisecond)
		two := newRig(t, store, half)
		after(5 * time.Second)
		ids := one.insert(8)
		after(10 * time.Second)
		cut := func(f func(string) fault) { one.wire.setHook(f); two.wire.setHook(f) }
		cut(func(string) fault { return lostCall }) // 2 s before they end
		after(17 * time.Second)
		cut(nil)
		after(time.Minute)
		for _, id := range ids {
			info := one.get(id)
			require.Equal(t, task.StateSucceeded, info.State)
			require.Equal(t, 1, info.Attempt, "all of it was done in the outage, and who did it was there")
		}
		require.Len(t, append(one.deeds.started(), two.deeds.started()...), len(ids))
		one.drain()
		two.drain()
	})
}

func TestUnleasedDoNotPileUp(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			n := 0
			r.wire.hook = func(op string) fault {
				if op == "claim" && n == 0 {
					n++
					return lostCall
				}
				return none
			}
		})
		after(time.Second)
		late := r.claimLate(r.session(), 1)
		r.wire.setHook(func(op string) fault {
			if op == "settle" {
				return lostCall
			}
			return none
		})
		after(30 * time.Second)
		require.InDelta(t, 1, testutil.ToFloat64(r.opts.Metrics.Buffered), 0, "one outcome for one row")
		r.wire.setHook(nil)
		after(5 * time.Second)
		r.all(late, task.StateSucceeded, 1)
		r.drain()
	})
}
