package poll_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// turning gives a task that takes fast, until slow is set and it takes that.
func turning(fast time.Duration) (do func(*lease.Lease, *task.Type) task.Outcome, slow *atomic.Int64) {
	slow = new(atomic.Int64)
	return func(l *lease.Lease, t *task.Type) task.Outcome {
		if d := slow.Load(); d > 0 {
			return takes(time.Duration(d))(l, t)
		}
		return takes(fast)(l, t)
	}, slow
}

// running is how many of the rows are in the agent's hands.
func (r *rig) running(ids []task.ID) (n int) {
	for _, id := range ids {
		if r.get(id).State == task.StateRunning {
			n++
		}
	}
	return n
}

func TestQueuedRowsGoBackWhenTheyWaitTooLong(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		do, slow := turning(2 * time.Millisecond)
		r := newRig(t, store, func(r *rig) { r.deeds.do = do })
		ids := r.insert(2000)
		after(500 * time.Millisecond)
		slow.Store(int64(15 * time.Second))
		after(100 * time.Millisecond)
		require.Greater(t, r.running(ids), 8, "some were claimed ahead")
		after(time.Second)
		require.Equal(t, 3, r.running(ids), "what cannot start soon is for others, and a slot is kept for the other type")
		back := 0
		for _, id := range ids {
			if info := r.get(id); info.State == task.StatePending && info.Fence > 0 {
				back++
				require.Empty(t, info.History, "nothing was tried")
				require.Zero(t, info.Attempt)
				require.False(t, info.EverStarted)
			}
		}
		require.Positive(t, back)
		r.engine.Drain()
		<-r.over
	})
}

func TestQueueGoesBackWhenTheGateShuts(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		g := &gate{n: -1, wait: 10 * time.Second, busy: func() int { return 0 }}
		do, slow := turning(2 * time.Millisecond)
		r := newRig(t, store, func(r *rig) { r.deeds.do, r.opts.Gate = do, g })
		ids := r.insert(2000)
		after(500 * time.Millisecond)
		slow.Store(int64(300 * time.Millisecond))
		after(100 * time.Millisecond)
		ahead := r.running(ids) - 4
		require.Positive(t, ahead)
		g.set(0)
		after(500 * time.Millisecond) // slots fall free, and the loop looks
		require.LessOrEqual(t, r.running(ids), 4)
		require.Positive(t, g.released())
		r.engine.Drain()
		<-r.over
	})
}

func TestClaimsAreWorthTheirRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.deeds.do = takes(2 * time.Millisecond) })
		r.wire.setSlow("claim", time.Millisecond)
		ids := r.insert(2000)
		after(3 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		require.Less(t, r.wire.count("claim"), 250)
		r.drain()
	})
}

func TestReleaseWhoseReplyIsLostIsNotStale(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db)
		other, err := db.Join(t.Context(), store.Agent{Name: "other", Presence: time.Hour})
		require.NoError(t, err)
		after(2 * time.Second)
		r.wire.setSlow("claim", 3*time.Second)
		ids := r.insert(1)
		r.wire.setHook(func(op string) fault {
			if op != "settle" {
				return none
			}
			return lostReply
		})
		after(4 * time.Second)
		require.Equal(t, task.StatePending, r.get(ids[0]).State, "released: its claim took too long")
		got, err := db.Claim(t.Context(), store.Claim{Session: other, Number: 1, Wants: []store.Want{
			{Type: "a", Phase: task.Run, N: 1, Window: time.Minute, Policy: r.opts.Types[0].Policy.Hash("a")},
		}})
		require.NoError(t, err)
		require.Len(t, got, 1)
		r.wire.setHook(nil)
		after(5 * time.Second)
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.StaleSettlements))
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.Buffered))
		r.drain()
	})
}

func TestNothingIsClaimedWhilePresenceRunsOut(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		after(4 * time.Second)
		r.wire.setHook(func(op string) fault {
			if op == "present" {
				return lostCall
			}
			return none
		})
		after(9 * time.Second)
		ids := r.insert(5)
		after(2 * time.Second)
		r.all(ids, task.StatePending, 0)
		require.Equal(t, task.Fence(0), r.get(ids[0]).Fence)
		r.wire.setHook(nil)
		after(5 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

func TestRowsThatAreKeptAreAskedForEverLess(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		after(2 * time.Second)
		ids := []task.ID{1, 2, 3}
		var release []func()
		for _, id := range ids {
			release = append(release, store.Keep(id))
		}
		r.insert(3)
		after(2 * time.Second)
		before := r.wire.count("claim")
		after(5 * time.Second)
		require.LessOrEqual(t, r.wire.count("claim")-before, 20)
		require.NoError(t, r.engine.Health())
		after(8 * time.Second)
		require.ErrorContains(t, r.engine.Health(), "none could be claimed")
		require.Greater(t, r.engine.Condition().Starved, int64(10_000), "heartbeats say so, too")
		for _, f := range release {
			f()
		}
		after(3 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		require.NoError(t, r.engine.Health())
		r.drain()
	})
}
