package poll_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

func TestDrainLetsRunningFinish(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.deeds.do = takes(5 * time.Second) })
		ids := r.insert(10)
		after(2 * time.Second) // where the listener was there after the rows, they begin at the first poll, after a second
		began := time.Now()
		r.drain()
		require.Less(t, time.Since(began), 5*time.Second)
		states := map[task.State]int{}
		for _, id := range ids {
			info := r.get(id)
			states[info.State]++
			if info.State == task.StatePending {
				require.Zero(t, info.Attempt, "what never started cost no attempt")
				require.Empty(t, info.History, "and left no trace")
			}
		}
		require.Equal(t, map[task.State]int{task.StateSucceeded: 3, task.StatePending: 7}, states, "one slot is kept for the other type")
	})
}

func TestDrainStopsWhatDoesNotFinish(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		var draining []time.Time
		r := newRig(t, store, func(r *rig) {
			r.opts.Drain = 3 * time.Second
			r.opts.Draining = func() { draining = append(draining, time.Now()) }
			r.deeds.do = takes(15 * time.Second)
		})
		ids := r.insert(2)
		after(time.Second)
		began := time.Now()
		r.drain()
		require.Equal(t, 3*time.Second, time.Since(began))
		require.Equal(t, []time.Time{began}, draining)
		for _, id := range ids {
			info := r.get(id)
			require.Equal(t, task.StatePending, info.State)
			require.Zero(t, info.Attempt)
			require.True(t, info.EverStarted)
		}
	})
}

func TestHardStopStopsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.deeds.do = takes(15 * time.Second) })
		ids := r.insert(2)
		after(time.Second)
		began := time.Now()
		r.engine.Drain()
		r.cancel()
		<-r.over
		require.Zero(t, time.Since(began))
		for _, id := range ids {
			require.Zero(t, r.get(id).Attempt)
		}
	})
}

func TestStoreOutOfReachStopsWorkBeforePresenceRunsOut(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		var stopped time.Time
		r := newRig(t, store, func(r *rig) {
			r.opts.Types[0].Policy.Timeout = time.Hour
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				<-l.Context().Done()
				stopped = time.Now()
				return l.Cause().Outcome()
			}
		})
		ids := r.insert(1)
		after(10 * time.Second)
		require.Equal(t, task.StateRunning, r.get(ids[0]).State)
		r.wire.setHook(func(string) fault { return lostCall })
		cut := time.Now()
		after(16 * time.Second)
		stop := r.opts.Types[0].Policy.Stop
		require.WithinRange(t, stopped, cut.Add(15*time.Second-stop-2*time.Second), cut.Add(15*time.Second-stop),
			"so early that stopping is over when presence runs out, and no earlier")
		r.deeds.mu.Lock()
		r.deeds.do = succeed
		r.deeds.mu.Unlock()
		r.wire.setHook(nil)
		after(10 * time.Second)
		info := r.get(ids[0])
		require.Equal(t, task.StateSucceeded, info.State)
		require.Equal(t, 1, info.Attempt, "the stopped attempt was released, and not reaped before")
		r.drain()
	})
}

func TestDeadAgentsRowsComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		long := func(r *rig) { r.opts.Types[0].Policy.Timeout = time.Hour; r.deeds.do = takes(time.Hour) }
		dead := newRig(t, store, long)
		ids := dead.insert(3)
		after(5 * time.Second)
		alive := newRig(t, store)
		after(5 * time.Second)
		dead.wire.setHook(func(string) fault { return lostCall })
		cut := time.Now()
		var back time.Time
		for time.Since(cut) < time.Minute && back.IsZero() {
			after(100 * time.Millisecond)
			if len(alive.deeds.started()) == 3 {
				back = time.Now()
			}
		}
		require.False(t, back.IsZero())
		presence, retry := 15*time.Second, 2*time.Second
		require.WithinRange(t, back, cut.Add(presence-2*time.Second), cut.Add(presence+2*time.Second+retry))
		for _, id := range ids {
			info := alive.get(id)
			require.Equal(t, task.StateSucceeded, info.State)
			require.Equal(t, 2, info.Attempt, "an attempt that was lost counts")
			require.Equal(t, task.Lost, info.History[0].Outcome)
			require.Equal(t, task.Fence(1), info.History[0].Fence, "that of the attempt, not of its reaper")
			require.Equal(t, "its agent is gone", info.History[0].Error)
		}
		dead.wire.setHook(nil)
		after(time.Minute)
		alive.all(ids, task.StateSucceeded, 1)
		alive.drain()
		dead.drain()
	})
}

func TestLostLeaseStopsItsAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var cause *lease.Cause
		r := newRig(t, db, func(r *rig) {
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				<-l.Context().Done()
				cause = l.Cause()
				return cause.Outcome()
			}
		})
		ids := r.insert(1)
		after(4 * time.Second)
		// Another agent reaps the row, as it may after this one's presence ran out.
		other, err := db.Join(t.Context(), store.Agent{Name: "other", Presence: time.Hour})
		require.NoError(t, err)
		require.NoError(t, db.Leave(t.Context(), r.session()))
		reaped, err := db.Sweep(t.Context(), other, 10, time.Minute, func() store.View { return store.View{Now: time.Now(), Calm: time.Hour} })
		require.NoError(t, err)
		require.Len(t, reaped, 1)
		after(4 * time.Second)
		require.NotNil(t, cause)
		require.Equal(t, task.Lost, cause.Verdict)
		require.Equal(t, task.StateRunning, r.get(ids[0]).State, "the row is the other's to reap")
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.StaleSettlements), "and there is nothing to settle")
		require.InDelta(t, 1, testutil.ToFloat64(r.opts.Metrics.LeasesLost), 0)
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.Attempts.WithLabelValues("a", "run", "lost")), "nor to count: the other does")
		r.drain()
	})
}

func TestGateHoldsClaimsAndReturnsTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		g := &gate{n: 0, wait: 500 * time.Millisecond}
		r := newRig(t, store, func(r *rig) {
			g.busy = func() int { return r.engine.Held() }
			r.opts.Gate = g
			r.deeds.do = takes(time.Millisecond)
		})
		ids := r.insert(10)
		after(5 * time.Second)
		require.Empty(t, r.deeds.started())
		g.set(1)
		after(1500 * time.Millisecond)
		require.NotEmpty(t, r.deeds.started())
		require.Equal(t, 1, r.deeds.most[""])
		g.set(-1)
		after(3 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}
