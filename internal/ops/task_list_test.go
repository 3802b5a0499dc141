package ops

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// haystack is a store of very many tasks with ids from 1, of which no index has those that match.
type haystack struct {
	Store

	newest  task.ID
	matches map[task.ID]bool
	looked  int // tasks
}

func (h *haystack) Window(_ context.Context, f store.TaskFilter, rows int) (store.Window, error) {
	h.looked += rows
	before := f.Before
	if before == 0 {
		before = h.newest + 1
	}
	return store.Window{From: max(before-task.ID(rows), 0)}, nil
}

func (h *haystack) List(_ context.Context, f store.TaskFilter) (list []store.TaskInfo, err error) {
	before := f.Before
	if before == 0 {
		before = h.newest + 1
	}
	for id := before - 1; id >= max(f.Window.From, 1) && len(list) < f.Limit; id-- {
		if len(f.Labels) == 0 || h.matches[id] {
			list = append(list, store.TaskInfo{ID: id})
		}
	}
	return list, nil
}

func (h *haystack) Redactions(context.Context) (map[string][]string, error) { return nil, nil } //nolint:nilnil // none

func TestASearchSaysHowFarItLookedBack(t *testing.T) {
	h := &haystack{newest: 10_000_000, matches: map[task.ID]bool{9_999_990: true, 9_999_995: true, 7: true}}
	f := store.TaskFilter{Labels: map[string]string{"find": "me"}}
	page, err := PageTasks(t.Context(), h, f, 0)
	require.NoError(t, err)
	require.Len(t, page.Tasks, 2)
	require.Equal(t, task.ID(9_999_995), page.Tasks[0].ID)
	require.LessOrEqual(t, h.looked, lookMost)
	require.NotNil(t, page.LookedBack, "it has not looked at all")
	require.Equal(t, page.Before, page.LookedBack.ID)
	require.LessOrEqual(t, page.Before, h.newest+1-lookFirst)
	require.GreaterOrEqual(t, page.Before, h.newest+1-lookMost)
	require.NotNil(t, page.LookedBack.CreatedAt)

	f.Before = page.Before
	next, err := PageTasks(t.Context(), h, f, 0)
	require.NoError(t, err)
	require.Empty(t, next.Tasks)
	require.NotNil(t, next.Tasks, "a list without tasks, in JSON")
	require.Less(t, next.LookedBack.ID, page.LookedBack.ID, "it goes on")

	f.Before = 500
	last, err := PageTasks(t.Context(), h, f, 0)
	require.NoError(t, err)
	require.Len(t, last.Tasks, 1)
	require.Zero(t, last.Before, "it has looked at all")
	require.Nil(t, last.LookedBack)
}

func TestAFullPageHasNotLookedBack(t *testing.T) {
	h := &haystack{newest: 200, matches: map[task.ID]bool{}}
	for id := range h.newest {
		h.matches[id+1] = true
	}
	page, err := PageTasks(t.Context(), h, store.TaskFilter{Labels: map[string]string{"find": "me"}, Limit: 120}, 0)
	require.NoError(t, err)
	require.Len(t, page.Tasks, 120)
	require.Equal(t, task.ID(81), page.Before)
	require.Nil(t, page.LookedBack)
}
