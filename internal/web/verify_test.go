package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// TestPaceOf says why a plan is as fast as it is.
func TestPaceOf(t *testing.T) {
	plan := store.ChunkPlanInfo{State: store.ChunksPlanning, Ahead: 64, Live: 64, Target: 5 * time.Second, PerRow: 0.002, Size: 2500}
	require.Equal(t, []string{
		"64 chunks wait or run, which is all that may (ahead = 64): the next ones are planned as these end.",
		"A row takes 2.0 ms and a chunk should take 5.0 s: so the next one has 2,500 rows.",
	}, paceOf(&plan, nil))
	plan.Live, plan.Target = 3, 0
	require.Equal(t, []string{"3 of 64 chunks wait or run: more are planned."}, paceOf(&plan, nil))
	require.Equal(t, []string{"Planning waits: a transaction is 11m old (says agent a)."},
		paceOf(&plan, &ops.PlanWaits{Why: "a transaction is 11m old", Agent: "a"}))
	plan.State = store.ChunksPaused
	require.Empty(t, paceOf(&plan, nil))
}
