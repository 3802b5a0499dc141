package poll_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// stuckGate blocks its callers while it is shut: a loop that stands still.
type stuckGate struct {
	gate
	shut atomic.Pointer[chan struct{}]
}

func (g *stuckGate) Room(typ string, phase task.Phase) (int, time.Duration) {
	if c := g.shut.Load(); c != nil {
		<-*c
	}
	return -1, 0
}

func TestPulse(t *testing.T) {
	const every = 250 * time.Millisecond
	bubble(t, func(t *testing.T, store *model.Store) {
		g := &stuckGate{}
		r := newRig(t, store, func(r *rig) { r.opts.Gate, r.opts.Poll = g, time.Hour })
		alive := func(n int, reason string) {
			t.Helper()
			for i := range n {
				after(every)
				require.True(t, r.engine.Pulse(), "%s: %d", reason, i)
			}
		}
		alive(200, "an idle loop turns when it is asked, however rarely it polls")
		r.wire.setHook(func(string) fault { return hung })
		r.insert(1)
		alive(200, "one that waits for the store counts as turning")
		r.wire.setHook(nil)
		alive(100, "the store is back")

		c := make(chan struct{})
		g.shut.Store(&c)
		r.engine.Pulse() // has the loop turn, and stand still
		after(every)
		r.engine.Pulse()
		for range 20 {
			after(every)
			require.False(t, r.engine.Pulse(), "a loop that stands still has no pulse")
		}
		g.shut.Store(nil)
		close(c)
		after(every)
		alive(20, "it turns again")
		r.deeds.do = takes(10 * time.Second)
		r.insert(1)
		alive(8, "busy")
		r.engine.Drain()
		alive(20, "draining is bounded by others")
		r.drain()
	})
}
