package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

func TestShowReportsWhatATaskSays(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	info := &ops.Task{
		ID: 7, Type: "x", State: task.StateRunning, CreatedAt: at, RunAt: at, ClaimedAt: &at, LeaseEnd: &at,
		Payload: json.RawMessage(`{}`), Progress: json.RawMessage(`0.4`), Message: "page\x1b 40",
		Checkpoint: json.RawMessage(`{"page": 40}`), CancelRequested: &at, CancelRequestedBy: "al\nice", Detached: true,
	}
	var out bytes.Buffer
	require.NoError(t, (&app{cli: &cli{}}).showTask(&out, info))
	for _, line := range []string{
		`progress      40%`, `message       page\x1b 40`, `checkpoint    {"page":40}`,
		`cancel asked  2026-11-20T08:00:00.000Z by al ice`,
		`lease until   2026-11-20T08:00:00.000Z (detached: whatever becomes of its agent)`,
	} {
		require.Contains(t, out.String(), line+"\n")
	}
	info.CancelRequestedBy, info.Detached = "", false
	out.Reset()
	require.NoError(t, (&app{cli: &cli{}}).showTask(&out, info))
	require.Contains(t, out.String(), "cancel asked  2026-11-20T08:00:00.000Z\n")
	require.Contains(t, out.String(), "lease until   2026-11-20T08:00:00.000Z\n")
}
