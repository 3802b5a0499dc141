package ops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

func TestNoAgent(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "no agent is running; the store knows of none that has run", NoAgent(nil))
	all := []store.AgentInfo{
		{Name: "a", State: store.AgentLeft, SeenAt: now.Add(-time.Hour)}, {Name: "b", State: store.AgentAbsent, SeenAt: now.Add(-time.Minute)},
	}
	require.Equal(t, "no agent is running; the last one, b, sent its last heartbeat at 2026-11-27T11:59:00.000Z", NoAgent(all))
	all[1].SeenAt = now.Add(-2 * time.Hour)
	require.Equal(t, "no agent is running; the last one, a, exited at 2026-11-27T11:00:00.000Z", NoAgent(all))
}
