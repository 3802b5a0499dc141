package ops

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestEndOf(t *testing.T) {
	for _, c := range []struct {
		end    End
		states []task.State
	}{
		{EndSucceeded, nil},
		{EndSucceeded, []task.State{task.StateSucceeded, task.StateSucceeded}},
		{EndFailed, []task.State{task.StateSucceeded, task.StateFailed}},
		{EndFailed, []task.State{task.StateCancelled, task.StateFailed}},
		{EndFailed, []task.State{task.StateFailed, task.StateCancelled}},
		{EndFailed, []task.State{task.StateRolledBack}},
		{EndFailed, []task.State{task.StateRollbackFailed, task.StateCancelled}},
		{EndCancelled, []task.State{task.StateSucceeded, task.StateCancelled, task.StateSucceeded}},
	} {
		var infos []*Task
		for _, s := range c.states {
			infos = append(infos, &Task{State: s})
		}
		require.Equal(t, c.end, EndOf(infos), "%v", c.states)
	}
}

func TestEndOfBatch(t *testing.T) {
	want := map[store.BatchState]End{store.BatchSucceeded: EndSucceeded, store.BatchCancelled: EndCancelled}
	for _, s := range store.BatchStates() {
		end, ok := want[s]
		if !ok {
			end = EndFailed
		}
		require.Equal(t, end, EndOfBatch(s), s)
	}
}

func TestUnfinished(t *testing.T) {
	done, live := &Task{State: task.StateSucceeded}, &Task{State: task.StateRunning}
	require.Empty(t, Unfinished([]task.ID{7}, []*Task{done}))
	require.Equal(t, []task.ID{8}, Unfinished([]task.ID{7, 8}, []*Task{done, live}))
	require.Equal(t, []task.ID{8, 9}, Unfinished([]task.ID{7, 8, 9}, []*Task{done, live, nil}))
}
