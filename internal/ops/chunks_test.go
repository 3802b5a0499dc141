package ops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// TestWaitsOf finds which agent says that a plan waits.
func TestWaitsOf(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0)
	agents := []store.AgentInfo{
		{Name: "quiet"},
		{Name: "other", Condition: &store.Condition{Chunks: []store.WaitingPlan{{Plan: "b", Why: "x"}}}},
		{Name: "planner", SeenAt: at, Condition: &store.Condition{Chunks: []store.WaitingPlan{{Plan: "a", Why: "a transaction is 11m old"}}}},
	}
	require.Equal(t, &PlanWaits{"a transaction is 11m old", "planner", at}, waitsOf(agents, "a"))
	require.Nil(t, waitsOf(agents, "c"))
}
