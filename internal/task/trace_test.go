package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAttemptSpan: every attempt of every task has a span id of its own, which follows from the row.
func TestAttemptSpan(t *testing.T) {
	c, ok := ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	require.True(t, ok)
	require.True(t, c.Sampled())
	require.False(t, TraceContext{Flags: "02"}.Sampled())
	other := c
	other.Span = "00f067aa0ba902b8"
	elsewhere := c
	elsewhere.Trace = "4bf92f3577b34da6a3ce929d0e0e4737"
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	row := Task{ID: 7, CreatedAt: at}
	all := map[string]string{}
	for what, id := range map[string]string{
		"an attempt": row.AttemptSpan(c, 1, Run), "the next": row.AttemptSpan(c, 3, Run), "its check": row.AttemptSpan(c, 1, Check),
		"its rollback": row.AttemptSpan(c, 1, Rollback), "of another parent": row.AttemptSpan(other, 1, Run),
		"of another trace": row.AttemptSpan(elsewhere, 1, Run), "of another task": (&Task{ID: 8, CreatedAt: at}).AttemptSpan(c, 1, Run),
		"of another store": (&Task{ID: 7, CreatedAt: at.Add(time.Millisecond)}).AttemptSpan(c, 1, Run),
	} {
		require.Regexp(t, "^[0-9a-f]{16}$", id)
		require.Empty(t, all[id], what)
		all[id] = what
	}
	row.State, row.Attempt, row.Payload, row.Fence = StateRunning, 3, []byte(`{}`), 9
	require.Equal(t, "an attempt", all[row.AttemptSpan(c, 1, Run)], "it depends on nothing that changes")
	require.Equal(t, "an attempt", all[(&Task{ID: 7, CreatedAt: at.Local()}).AttemptSpan(c, 1, Run)])
}
