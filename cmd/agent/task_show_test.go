package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

func TestProgressForPeople(t *testing.T) {
	for doc, want := range map[string]string{
		``: "", `0`: "0%", `0.4`: "40%", `0.123`: "12.3%", `0.29`: "29%", `0.9999`: "99.9%", `1`: "100%", `1e-9`: "0%",
		`{"done":40,"total":100}`: "40 of 100", `{"done":0.5,"total":1e3}`: "0.5 of 1e3", `{"done":40}`: `{"done":40}`,
		`{"done":null,"total":2}`: `{"done":null,"total":2}`,
		`"page 40"`:               "page 40", `"\u001b[2J\n x"`: `\x1b[2J x`, `null`: "null", `[1]`: "[1]", `nonsense`: "nonsense",
	} {
		require.Equal(t, want, progress(json.RawMessage(doc)), doc)
	}
	require.LessOrEqual(t, len([]rune(progress(json.RawMessage(`"`+strings.Repeat("ü", 1000)+`"`)))), 100)
}

func TestShowTellsWhatATaskSays(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	info := &ops.Info{
		ID: 7, Type: "x", State: task.StateRunning, CreatedAt: at, RunAt: at, ClaimedAt: &at, LeaseEnd: &at,
		Payload: json.RawMessage(`{}`), Progress: json.RawMessage(`0.4`), Message: "page\x1b 40",
		Checkpoint: json.RawMessage(`{"page": 40}`), CancelAsked: &at, CancelBy: "al\nice", Detached: true,
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
	info.CancelBy, info.Detached = "", false
	out.Reset()
	require.NoError(t, (&app{cli: &cli{}}).showTask(&out, info))
	require.Contains(t, out.String(), "cancel asked  2026-11-20T08:00:00.000Z\n")
	require.Contains(t, out.String(), "lease until   2026-11-20T08:00:00.000Z\n")
}
