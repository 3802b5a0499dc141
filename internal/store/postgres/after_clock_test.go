package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// TestAClockSetBackWhileARowIsCancelledForAnother: the row still says for which it was cancelled, and a retry of that one brings it back.
func TestAClockSetBackWhileARowIsCancelledForAnother(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := joined(t, h)
	first := a.take(t, 1)[0]
	second := h.Insert(t, store.EnqueueRequest{Type: "a", After: []task.ID{first.ID}})[0]
	var text string
	conn := pgtest.Connect(t)
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT pg_get_functiondef($1::regproc)`, h.schema+".cancel_rows").Scan(&text))
	const now = "ended timestamptz := clock_timestamp();"
	require.Contains(t, text, now)
	h.exec(t, strings.Replace(text, now, "ended timestamptz := clock_timestamp() - interval '3 seconds';", 1)) // since the call began

	a.settle(t, store.Settlement{
		ID: first.ID, Fence: first.Fence, RanFence: first.Fence, Phase: task.Run, Attempt: 1, Started: time.Second,
		Next:    task.Transition{State: task.StateFailed, Attempt: 1, EverStarted: true},
		Outcome: task.Outcome{Verdict: task.Rejected, Error: "no"},
	})
	for worked := 1; worked > 0; {
		u, err := h.Unblock(t.Context(), 100)
		require.NoError(t, err)
		worked = u.Worked
	}
	info, err := h.Get(t.Context(), second)
	require.NoError(t, err)
	require.Equal(t, task.StateCancelled, info.State)
	require.Contains(t, info.Error, "failed")
	require.NotNil(t, info.Related)
	require.Equal(t, first.ID, info.Related.CancelledFor)
}
