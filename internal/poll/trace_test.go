package poll

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// TestBefore: the fence of the attempt before follows from the row, or no link is made. That the store raises fences so is shown by
// test/e2e, where each link leads to a span.
func TestBefore(t *testing.T) {
	prev := func(v task.Verdict) *task.Previous { return &task.Previous{Outcome: v} }
	running, rolling := task.StateRunning, task.StateRollbackRunning
	sync := &task.Policy{Rollback: &task.RollbackPolicy{}}
	async := &task.Policy{Async: true}
	for what, c := range map[string]struct {
		row   task.Task
		p     *task.Policy
		f     task.Fence
		phase task.Phase
	}{
		"a first attempt":                {row: task.Task{State: running, Attempt: 1, Fence: 1}},
		"a retry":                        {task.Task{State: running, Attempt: 2, Fence: 3, Previous: prev(task.Failed)}, sync, 1, task.Run},
		"after one that was reaped":      {task.Task{State: running, Attempt: 2, Fence: 4, Previous: prev(task.Lost)}, sync, 1, task.Run},
		"after a deferral of the first":  {task.Task{State: running, Attempt: 1, Fence: 3, Previous: prev(task.Deferred)}, sync, 1, task.Run},
		"perhaps it was detached":        {row: task.Task{State: running, Attempt: 2, Fence: 3, Previous: prev(task.Stalled)}, p: async},
		"it was detached, and lost":      {task.Task{State: running, Attempt: 2, Fence: 4, Previous: prev(task.Lost)}, async, 1, task.Run},
		"an operator's retry":            {task.Task{State: running, Attempt: 1, Round: 1, Fence: 4, Previous: prev(task.Failed)}, sync, 1, task.Run},
		"the same, of a lost one":        {task.Task{State: running, Attempt: 1, Round: 1, Fence: 5, Previous: prev(task.Lost)}, sync, 1, task.Run},
		"the same, of a rollback":        {task.Task{State: running, Attempt: 1, Round: 1, Fence: 6, Previous: prev(task.Succeeded)}, sync, 3, task.Rollback},
		"a rollback":                     {task.Task{State: rolling, Attempt: 1, Fence: 3, Cause: task.Failed, Previous: prev(task.Failed)}, sync, 1, task.Run},
		"a rollback that was requested":  {task.Task{State: rolling, Attempt: 1, Fence: 4, Cause: task.Succeeded, Previous: prev(task.Succeeded)}, sync, 1, task.Run},
		"a rollback's retry":             {task.Task{State: rolling, Attempt: 2, Fence: 5, Cause: task.Failed, Previous: prev(task.Failed)}, sync, 3, task.Rollback},
		"it was cancelled while waiting": {row: task.Task{State: rolling, Attempt: 1, Fence: 4, Cause: task.Cancelled, Previous: prev(task.Cancelled)}, p: sync},
		"a fence that cannot be":         {row: task.Task{State: running, Attempt: 2, Fence: 1, Previous: prev(task.Failed)}, p: sync},
	} {
		f, phase, ok := before(&c.row, c.p)
		require.Equal(t, c.f != 0, ok, what)
		if ok {
			require.Equal(t, c.f, f, what)
			require.Equal(t, c.phase, phase, what)
		}
	}
}
