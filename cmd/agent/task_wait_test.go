package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

func TestEndCode(t *testing.T) {
	for end, code := range map[ops.End]int{
		ops.EndSucceeded: exitWell, ops.EndCancelled: exitCancelled, ops.EndFailed: exitTask,
	} {
		err := endCode(end)
		require.Equal(t, code, (&app{}).fail(err))
		if code == exitWell {
			require.NoError(t, err)
			continue
		}
		var f *failure
		require.ErrorAs(t, err, &f)
		require.NoError(t, f.err, "it has been said already")
	}
}

func TestUnfinished(t *testing.T) {
	done, live := &ops.Task{State: task.StateSucceeded}, &ops.Task{State: task.StateRunning}
	require.Equal(t, "task 8", unfinished([]task.ID{7, 8}, []*ops.Task{done, live}))
	require.Equal(t, "2 of 3 tasks (first 8)", unfinished([]task.ID{7, 8, 9}, []*ops.Task{done, live, nil}))
}
