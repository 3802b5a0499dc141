package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestCause(t *testing.T) {
	want := map[task.Verdict]task.Verdict{
		task.Succeeded: task.Succeeded, task.Failed: task.Failed, task.Rejected: task.Rejected, task.Stalled: task.Stalled,
		task.TimedOut: task.TimedOut, task.Lost: task.Lost, task.Cancelled: task.Cancelled,
		task.Deferred: task.Failed, task.Superseded: task.Failed, task.Undelivered: task.Failed, task.Drained: task.Failed,
	}
	for _, v := range task.Verdicts() {
		require.Equal(t, want[v], task.Cause(v, false), v)
		require.Equal(t, task.Cancelled, task.Cause(v, true), v)
	}
}

func TestRollsBack(t *testing.T) {
	require.True(t, task.RollsBack(true, true))
	require.False(t, task.RollsBack(true, false), "its type has no rollback")
	require.False(t, task.RollsBack(false, true), "there is nothing to roll back")
	require.False(t, task.RollsBack(false, false))
}
