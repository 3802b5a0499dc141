package poll_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/storetest/model"
)

// A loop that stands still does not keep heartbeats from saying so.
func TestHeartbeatsReportAStuckLoop(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		g := &stuckGate{}
		r := newRig(t, store, func(r *rig) { r.opts.Gate, r.opts.Poll = g, 200*time.Millisecond })
		stuck := func() int64 {
			t.Helper()
			agents, err := store.ListAgents(t.Context(), false)
			require.NoError(t, err)
			require.Len(t, agents, 1, "the session goes on")
			if agents[0].Condition == nil {
				return 0
			}
			return agents[0].Condition.Stuck
		}
		after(5 * time.Second)
		require.Zero(t, stuck(), "an idle loop turns")
		c := make(chan struct{})
		g.shut.Store(&c)
		after(1500 * time.Millisecond)
		require.Zero(t, stuck(), "not for long enough")
		after(3 * time.Second)
		require.Greater(t, stuck(), int64(2000))
		require.Less(t, stuck(), int64(4500))
		g.shut.Store(nil)
		close(c)
		after(5 * time.Second)
		require.Zero(t, stuck())
		r.drain()
	})
}
