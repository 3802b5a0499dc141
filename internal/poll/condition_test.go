package poll_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/storetest/model"
)

// Heartbeats report a loop that does not turn, from when Health does.
func TestHeartbeatsReportAStuckLoop(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.opts.Poll = time.Second })
		after(5 * time.Second)
		require.Zero(t, r.engine.Condition().Stuck, "an idle loop turns")
		r.engine.StandStill(9 * time.Second)
		require.Zero(t, r.engine.Condition().Stuck, "not for long enough")
		r.engine.StandStill(20 * time.Second)
		require.EqualValues(t, 20_000, r.engine.Condition().Stuck)
		require.ErrorContains(t, r.engine.Health(), "has not turned for 20s")
		after(3 * time.Second)
		require.Zero(t, r.engine.Condition().Stuck, "it turns again")
		r.drain()
	})
}
