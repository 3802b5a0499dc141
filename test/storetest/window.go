package storetest

import (
	"cmp"
	"context"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// looker is what lists and counts.
type looker interface {
	List(ctx context.Context, f store.TaskFilter) ([]store.TaskInfo, error)
	Window(ctx context.Context, f store.TaskFilter, rows int) (store.Window, error)
	Stats(ctx context.Context) (store.Stats, error)
	Counts(ctx context.Context) (store.Stats, error)
}

// spanned is a store that bounds the ids of the tasks of a batch. The model does not.
type spanned interface {
	BatchSpan(ctx context.Context, id task.BatchID) (store.Span, error)
}

// requireWindows requires that a list is the same when it is read window by window, each of so many rows.
func requireWindows(t require.TestingT, ctx context.Context, s looker, f store.TaskFilter, rows int) { //nolint:revive // as require has it
	want, err := s.List(ctx, f)
	require.NoError(t, err)
	got, limit := []task.ID{}, store.PageSize(f.Limit)
	for whole := f; ; {
		w, err := s.Window(ctx, whole, rows)
		require.NoError(t, err)
		part := whole
		part.Window, part.Limit = w, limit-len(got)
		list, err := s.List(ctx, part)
		require.NoError(t, err)
		for i := range list {
			require.GreaterOrEqual(t, list[i].ID, w.From)
			got = append(got, list[i].ID)
		}
		if len(got) == limit || w.From == 0 {
			break
		}
		require.True(t, whole.Before == 0 || w.From < whole.Before, "it goes on")
		whole.Before = w.From
	}
	wanted := []task.ID{}
	for i := range want {
		wanted = append(wanted, want[i].ID)
	}
	require.Equal(t, wanted, got, "%+v by windows of %d rows", f, rows)
}

// requireCounts requires that few rows are counted alike, whether there is a bound or not.
func requireCounts(t require.TestingT, ctx context.Context, s looker) { //nolint:revive // as require has it
	want, err := s.Stats(ctx)
	require.NoError(t, err)
	got, err := s.Counts(ctx)
	require.NoError(t, err)
	require.False(t, got.More)
	for _, list := range [][]store.TypeCount{want.Waiting, got.Waiting} {
		slices.SortFunc(list, func(a, b store.TypeCount) int {
			return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.State, b.State))
		})
	}
	require.Equal(t, append([]store.TypeCount{}, want.Waiting...), append([]store.TypeCount{}, got.Waiting...))
	require.Equal(t, want.Due, got.Due)
	require.Equal(t, want.Orphans, got.Orphans)
	require.Equal(t, want.BatchTasks, got.BatchTasks)
	require.Equal(t, want.AgentsPresent, got.AgentsPresent)
	require.Len(t, got.OldestDue, len(want.OldestDue))
	for typ, ago := range want.OldestDue {
		require.InDelta(t, ago, got.OldestDue[typ], float64(slack), typ)
	}
}

// searches are filters of all kinds.
func searches(types []string) []store.TaskFilter {
	list := []store.TaskFilter{
		{Labels: map[string]string{"tenant": "acme"}}, {Limit: 3}, {Key: "k"}, {Batch: 1}, {Batch: 1, States: []task.State{task.StateFailed}},
	}
	for _, s := range task.States() {
		list = append(list, store.TaskFilter{States: []task.State{s}, Limit: 1000})
	}
	for _, typ := range types {
		list = append(list, store.TaskFilter{Type: typ, Limit: 1000}, store.TaskFilter{Type: typ, Limit: 2},
			store.TaskFilter{Type: typ, States: []task.State{task.StateFailed, task.StateCancelled}, Limit: 1000},
			store.TaskFilter{Type: typ, States: []task.State{task.StatePending, task.StateRollbackPending}, Limit: 1000})
	}
	return list
}
