package ops

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestParseStates(t *testing.T) {
	states, err := ParseStates([]string{"failed", "running", "failed"})
	require.NoError(t, err)
	require.Equal(t, []task.State{task.StateFailed, task.StateRunning}, states)
	_, err = ParseStates([]string{"failed", "rolling_back"})
	require.ErrorAs(t, err, new(*store.InputError))
	require.ErrorContains(t, err, "rolling_back: there is no such state: use pending, running, ")
	for _, s := range task.States() {
		require.True(t, s.Known())
		_, err := ParseStates([]string{string(s)})
		require.NoError(t, err)
	}

	batches, err := ParseBatchStates([]string{"rolling_back"})
	require.NoError(t, err)
	require.Equal(t, []store.BatchState{store.BatchRollingBack}, batches)
	_, err = ParseBatchStates([]string{"retry_pending"})
	require.ErrorContains(t, err, "retry_pending: there is no such state: use pending, running, ")
	none, err := ParseBatchStates(nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestTones(t *testing.T) {
	for _, s := range task.States() {
		want := map[task.State]Tone{
			task.StateSucceeded: Good, task.StateRolledBack: Good, task.StateFailed: Bad, task.StateCancelled: Bad, task.StateRollbackFailed: Bad,
		}[s]
		require.Equal(t, want, ToneOf(s), s)
	}
	for _, s := range append(store.BatchStates(), store.BatchSealed, store.BatchRetrying) {
		want := map[store.BatchState]Tone{
			store.BatchSucceeded: Good, store.BatchRolledBack: Good, store.BatchFailed: Bad, store.BatchPartiallyFailed: Bad,
			store.BatchCancelled: Bad, store.BatchRollbackFailed: Bad,
		}[s]
		require.Equal(t, want, BatchTone(s), s)
	}
}
