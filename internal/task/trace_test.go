package task_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// TestAttemptSpan: every attempt of every task has a span id of its own, which follows from the row.
func TestAttemptSpan(t *testing.T) {
	c, ok := task.ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	require.True(t, ok)
	require.True(t, c.Sampled())
	require.False(t, task.TraceContext{Flags: "02"}.Sampled())
	other := c
	other.Span = "00f067aa0ba902b8"
	elsewhere := c
	elsewhere.Trace = "4bf92f3577b34da6a3ce929d0e0e4737"
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	row := task.Task{ID: 7, CreatedAt: at}
	all := map[string]string{}
	for what, id := range map[string]string{
		"an attempt": row.AttemptSpan(c, 1, task.Run), "the next": row.AttemptSpan(c, 3, task.Run), "its check": row.AttemptSpan(c, 1, task.Check),
		"its rollback": row.AttemptSpan(c, 1, task.Rollback), "of another parent": row.AttemptSpan(other, 1, task.Run),
		"of another trace": row.AttemptSpan(elsewhere, 1, task.Run), "of another task": (&task.Task{ID: 8, CreatedAt: at}).AttemptSpan(c, 1, task.Run),
		"of another store": (&task.Task{ID: 7, CreatedAt: at.Add(time.Millisecond)}).AttemptSpan(c, 1, task.Run),
	} {
		require.Regexp(t, "^[0-9a-f]{16}$", id)
		require.Empty(t, all[id], what)
		all[id] = what
	}
	row.State, row.Attempt, row.Payload, row.Fence = task.StateRunning, 3, []byte(`{}`), 9
	require.Equal(t, "an attempt", all[row.AttemptSpan(c, 1, task.Run)], "it depends on nothing that changes")
	require.Equal(t, "an attempt", all[(&task.Task{ID: 7, CreatedAt: at.Local()}).AttemptSpan(c, 1, task.Run)])
}
