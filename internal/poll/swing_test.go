package poll_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// The store's clock jumps and returns between two heartbeats of one agent, which notices nothing. The other one writes its
// heartbeat in between, so that it looks expired afterwards, or seen in the future. It is alive, and its task is its own: its
// lease is shorter than the jump, and was written before.
func TestAClockThatReturnsUnseenKillsNoSession(t *testing.T) {
	for name, by := range map[string]time.Duration{"from ahead": 2 * time.Hour, "from behind": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var skew atomic.Int64
				db := model.New(func() time.Time { return time.Now().Add(time.Duration(skew.Load())) })
				long := func(r *rig) {
					for _, typ := range r.opts.Declarations.Types {
						typ.Policy.Timeout = time.Hour
					}
					r.deeds.do = takes(time.Minute)
				}
				holds := newRig(t, db, long) // heartbeats at 2 s, 4 s and so on
				after(500 * time.Millisecond)
				id := holds.insert(1)[0]
				after(500 * time.Millisecond)
				require.Len(t, holds.deeds.started(), 1)
				holds.wire.setHook(func(op string) fault { // so that it writes nothing but heartbeats
					if op == "claim" || op == "sweep" {
						return lostCall
					}
					return none
				})
				sweeps := newRig(t, db, long) // at 3 s, 5 s and so on
				after(3*time.Second - time.Millisecond)
				for range 10 {
					after(2 * time.Second)
					skew.Store(int64(by)) // at 1 ms before the even second
					after(2 * time.Millisecond)
					skew.Store(0)
					after(2*time.Second - 2*time.Millisecond)
				}
				after(2 * time.Minute)
				require.Equal(t, 1, holds.get(id).Attempt)
				require.Equal(t, task.StateSucceeded, holds.get(id).State)
				require.Equal(t, 1, len(holds.deeds.started())+len(sweeps.deeds.started()))
				holds.wire.setHook(nil)
				holds.drain()
				sweeps.drain()
			})
		})
	}
}
