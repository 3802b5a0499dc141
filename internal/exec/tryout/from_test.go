package tryout_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/tryout"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Which attempt it is, and how the one before ended, for each state of the task.
func TestAttemptOfATask(t *testing.T) {
	ran := func(phase task.Phase, n int, out task.Verdict) store.AttemptInfo {
		return store.AttemptInfo{Phase: phase, Attempt: n, Outcome: out}
	}
	first, second := ran(task.Run, 1, task.Stalled), ran(task.Run, 2, task.Failed)
	undone := ran(task.Rollback, 1, task.TimedOut)
	for name, c := range map[string]struct {
		info    store.TaskInfo
		phase   task.Phase
		attempt int
		before  task.Verdict
	}{
		"fresh":                  {store.TaskInfo{State: task.StatePending}, task.Run, 1, ""},
		"waits for its second":   {store.TaskInfo{State: task.StateRetryPending, Attempt: 1, History: []store.AttemptInfo{first}}, task.Run, 2, task.Stalled},
		"runs its second":        {store.TaskInfo{State: task.StateRunning, Attempt: 2, History: []store.AttemptInfo{first}}, task.Run, 2, task.Stalled},
		"failed":                 {store.TaskInfo{State: task.StateFailed, Attempt: 2, History: []store.AttemptInfo{first, second}}, task.Run, 2, task.Stalled},
		"succeeded at first try": {store.TaskInfo{State: task.StateSucceeded, Attempt: 1}, task.Run, 1, ""},
		"cancelled before":       {store.TaskInfo{State: task.StateCancelled}, task.Run, 1, ""},
		"to be rolled back": {
			store.TaskInfo{State: task.StateRollbackPending, History: []store.AttemptInfo{first, second}}, task.Rollback, 1, task.Failed,
		},
		"rolled back, its run": {
			store.TaskInfo{State: task.StateRolledBack, Attempt: 1, History: []store.AttemptInfo{first, second, undone}}, task.Run, 2, task.Stalled,
		},
		"rolled back, its rollback": {
			store.TaskInfo{State: task.StateRolledBack, Attempt: 1, History: []store.AttemptInfo{first, second, undone}}, task.Rollback, 1, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.info.ID, c.info.Type, c.info.Payload, c.info.Fence = 7, "a", json.RawMessage(`{"n": 1}`), 99
			try := tryout.From(&c.info, nil, nil, &task.Type{Name: "a"}, c.phase)
			defer try.Close()
			row := try.Lease().Task()
			require.Equal(t, c.attempt, row.Attempt)
			require.Equal(t, c.phase, row.Phase())
			require.Zero(t, row.Fence)
			if c.before == "" {
				require.Nil(t, row.Previous)
			} else {
				require.Equal(t, c.before, row.Previous.Outcome)
			}
			other := tryout.From(&c.info, nil, json.RawMessage(`{"n": 2}`), &task.Type{Name: "a"}, c.phase)
			defer other.Close()
			require.JSONEq(t, `{"n": 2}`, string(other.Lease().Task().Data()))
		})
	}
}
