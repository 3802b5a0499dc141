package task_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestStates(t *testing.T) {
	type traits struct {
		waiting, running, live, finished bool
		phase                            task.Phase
		claimed                          task.State
	}
	want := map[task.State]traits{
		task.StatePending:         {true, false, true, false, task.Run, task.StateRunning},
		task.StateRunning:         {false, true, true, false, task.Run, task.StateRunning},
		task.StateRetryPending:    {true, false, true, false, task.Run, task.StateRunning},
		task.StateSucceeded:       {false, false, false, true, task.Run, task.StateSucceeded},
		task.StateFailed:          {false, false, false, true, task.Run, task.StateFailed},
		task.StateCancelled:       {false, false, false, true, task.Run, task.StateCancelled},
		task.StateSplit:           {false, false, false, true, task.Run, task.StateSplit},
		task.StateRollbackPending: {true, false, true, false, task.Rollback, task.StateRollbackRunning},
		task.StateRollbackRunning: {false, true, true, false, task.Rollback, task.StateRollbackRunning},
		task.StateRolledBack:      {false, false, false, true, task.Run, task.StateRolledBack},
		task.StateRollbackFailed:  {false, false, false, true, task.Run, task.StateRollbackFailed},
	}
	require.Len(t, task.States(), len(want))
	for _, s := range task.States() {
		t.Run(string(s), func(t *testing.T) {
			require.True(t, s.Known())
			require.Contains(t, want, s)
			got := traits{s.Waiting(), s.Running(), s.Live(), s.Finished(), s.Phase(), s.Claimed()}
			require.Equal(t, want[s], got)
		})
	}
	for _, s := range []task.State{"", "done"} {
		require.False(t, s.Known() || s.Waiting() || s.Running() || s.Live() || s.Finished(), "%q is no state", s)
	}
}

func TestVerdicts(t *testing.T) {
	gives := map[task.Verdict]bool{task.Deferred: true, task.Superseded: true, task.Undelivered: true, task.Drained: true}
	seen := map[task.Verdict]bool{}
	for _, v := range task.Verdicts() {
		require.False(t, seen[v], "%s stands there twice", v)
		seen[v] = true
		require.Equal(t, gives[v], v.Releases(), v)
	}
	require.False(t, task.Verdict("odd").Releases())
}
