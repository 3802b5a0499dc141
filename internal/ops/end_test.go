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
		var infos []*store.TaskInfo
		for _, s := range c.states {
			infos = append(infos, &store.TaskInfo{State: s})
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
	done, live := &store.TaskInfo{State: task.StateSucceeded}, &store.TaskInfo{State: task.StateRunning}
	require.Empty(t, Unfinished([]task.ID{7}, []*store.TaskInfo{done}))
	require.Equal(t, []task.ID{8}, Unfinished([]task.ID{7, 8}, []*store.TaskInfo{done, live}))
	require.Equal(t, []task.ID{8, 9}, Unfinished([]task.ID{7, 8, 9}, []*store.TaskInfo{done, live, nil}))
}
