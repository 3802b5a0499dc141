package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

func TestVerdictOfAWait(t *testing.T) {
	for _, c := range []struct {
		code   int
		states []task.State
	}{
		{exitWell, nil},
		{exitWell, []task.State{task.StateSucceeded, task.StateSucceeded}},
		{exitTask, []task.State{task.StateSucceeded, task.StateFailed}},
		{exitTask, []task.State{task.StateCancelled, task.StateFailed}},
		{exitTask, []task.State{task.StateRolledBack}},
		{exitTask, []task.State{task.StateRollbackFailed, task.StateCancelled}},
		{exitCancelled, []task.State{task.StateSucceeded, task.StateCancelled, task.StateSucceeded}},
	} {
		var infos []*ops.Info
		for _, s := range c.states {
			infos = append(infos, &ops.Info{State: s})
		}
		err := verdict(infos)
		if c.code == exitWell {
			require.NoError(t, err)
			continue
		}
		var f *failure
		require.ErrorAs(t, err, &f, "%v", c.states)
		require.Equal(t, c.code, f.code, "%v", c.states)
		require.NoError(t, f.err, "it has been said already")
	}
}

func TestUnfinished(t *testing.T) {
	done, live := &ops.Info{State: task.StateSucceeded}, &ops.Info{State: task.StateRunning}
	require.Equal(t, "task 8", unfinished([]task.ID{7, 8}, []*ops.Info{done, live}))
	require.Equal(t, "2 of 3 tasks (first 8)", unfinished([]task.ID{7, 8, 9}, []*ops.Info{done, live, nil}))
}
