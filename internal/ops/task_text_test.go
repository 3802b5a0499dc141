package ops

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestProgress(t *testing.T) {
	for doc, want := range map[string]string{
		``: "", `0`: "0%", `0.4`: "40%", `0.123`: "12.3%", `0.29`: "29%", `0.9999`: "99.9%", `1`: "100%", `1e-9`: "0%",
		`{"done":40,"total":100}`: "40 of 100", `{"done":0.5,"total":1e3}`: "0.5 of 1e3", `{"done":40}`: `{"done":40}`,
		`{"done":null,"total":2}`: `{"done":null,"total":2}`,
		`"page 40"`:               "page 40", `"\u001b[2J\n x"`: `\x1b[2J x`, `null`: "null", `[1]`: "[1]", `nonsense`: "nonsense",
	} {
		require.Equal(t, want, Progress(json.RawMessage(doc)), doc)
	}
	require.LessOrEqual(t, len([]rune(Progress(json.RawMessage(`"`+strings.Repeat("ü", 1000)+`"`)))), 100)
}

func TestWhenAndDetail(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { t := now.Add(-d); return &t }
	for _, c := range []struct {
		i            Task
		when, detail string
	}{
		{Task{State: task.StatePending, RunAt: now.Add(2 * time.Hour)}, "in 2h", ""},
		{Task{State: task.StatePending, RunAt: now.Add(-4 * time.Minute)}, "due 4m", ""},
		{Task{State: task.StateRunning, ClaimedAt: ago(90 * time.Second)}, "for 1m", ""},
		{Task{State: task.StateRunning, ClaimedAt: ago(0), Progress: json.RawMessage(`0.4`), Message: "page 40"}, "for 0s", "40% page 40"},
		{Task{State: task.StateRunning, ClaimedAt: ago(0), Message: "page 40"}, "for 0s", "page 40"},
		{
			Task{State: task.StateRetryPending, RunAt: now.Add(time.Second), Error: "attempt 1 of 3 failed: exit code 1: no disk", Message: "x"},
			"in 1s", "no disk (exit code 1)",
		},
		{Task{State: task.StateFailed, RunAt: now, FinishedAt: ago(49 * time.Hour), Error: "no disk"}, "2d ago", "no disk"},
	} {
		require.Equal(t, c.when, When(&c.i, now))
		require.Equal(t, c.detail, Detail(&c.i))
	}
}

func TestAttempts(t *testing.T) {
	require.Equal(t, "2", Attempts(&Task{Attempt: 2}))
	require.Equal(t, "2 of 3", Attempts(&Task{Attempt: 2, MaxAttempts: 3}))
}

func TestCancelRequestAndLease(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	i := &Task{}
	require.Empty(t, CancelRequest(i))
	require.Empty(t, Lease(i))
	i.CancelRequested, i.LeaseEnd = &at, &at
	require.Equal(t, "2026-11-20T08:00:00.000Z", CancelRequest(i))
	require.Equal(t, "2026-11-20T08:00:00.000Z", Lease(i))
	i.CancelRequestedBy, i.Detached = "al\nice", true
	require.Equal(t, "2026-11-20T08:00:00.000Z by al ice", CancelRequest(i))
	require.Equal(t, "2026-11-20T08:00:00.000Z (detached: whatever becomes of its agent)", Lease(i))
}

func TestEarlierOutputs(t *testing.T) {
	i := &Task{Output: "b", History: []store.AttemptInfo{{Attempt: 1, Output: "a"}, {Attempt: 2}, {Attempt: 3, Output: "b"}}}
	require.Equal(t, i.History[:1], EarlierOutputs(i))
	require.Empty(t, EarlierOutputs(&Task{}))
}
