package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// cancels is a store with a fixed reply for each task.
type cancels map[task.ID]any

func (c cancels) Cancel(_ context.Context, id task.ID, _ string) (store.Became, error) {
	switch answer := c[id].(type) {
	case store.Became:
		return answer, nil
	case error:
		return "", answer
	}
	return "", fmt.Errorf("cancel task: %d: %w", id, store.ErrNoTask)
}

// cancelAll cancels tasks of a store that can do nothing else.
func cancelAll(t *testing.T, s cancels, ids []task.ID, by string) ([]Report, error) {
	t.Helper()
	return ChangeTasks(t.Context(), verbs{cancels: s}, ids, TaskChange{Verb: VerbCancel, By: by})
}

func TestCancelReportsOfEach(t *testing.T) {
	s := cancels{1: store.Cancelling, 3: store.Became(task.StateSucceeded)}
	got, err := cancelAll(t, s, []task.ID{3, 2, 1, 1}, "")
	require.NoError(t, err)
	require.Equal(t, []Report{
		{ID: 3, Became: "succeeded"}, {ID: 2, Error: "no such task", Missing: true}, {ID: 1, Became: store.Cancelling}, {ID: 1, Became: store.Cancelling},
	}, got)
	got, err = cancelAll(t, s, nil, "")
	require.NoError(t, err)
	require.Empty(t, got)
}

func TestCancelStopsWhereTheStoreFails(t *testing.T) {
	dead := errors.New("connection refused")
	got, err := cancelAll(t, cancels{1: store.Cancelling, 2: dead, 3: store.Cancelling}, []task.ID{1, 2, 3}, "alice")
	require.ErrorIs(t, err, dead)
	require.ErrorContains(t, err, "task 2")
	require.Equal(t, []Report{{ID: 1, Became: store.Cancelling}}, got)
}

func TestCancelRefusesWhatNoStoreKeeps(t *testing.T) {
	for _, by := range []string{"a\x00b", "\xff", strings.Repeat("x", store.MaxBy+1)} {
		_, err := cancelAll(t, cancels{1: store.Cancelling}, []task.ID{1}, by)
		require.ErrorAs(t, err, new(*store.InputError), "%.20q", by)
	}
	_, err := cancelAll(t, cancels{1: store.Cancelling}, []task.ID{1}, strings.Repeat("x", store.MaxBy))
	require.NoError(t, err)
}
