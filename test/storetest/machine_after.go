package storetest

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// unblocker is what makes steps of the work on rows that wait for others.
type unblocker interface {
	Unblock(ctx context.Context, most int) (store.Unblocked, error)
}

// unblockAll makes steps of that size until there is nothing left to do, and returns what they did together.
func unblockAll(ctx context.Context, t require.TestingT, s unblocker, most int) (all store.Unblocked) {
	for range 10_000 {
		u, err := s.Unblock(ctx, most)
		require.NoError(t, err)
		all.Freed, all.Cancelled, all.Revived = all.Freed+u.Freed, all.Cancelled+u.Cancelled, all.Revived+u.Revived
		all.Worked += u.Worked
		all.Missed, all.Waiting = u.Missed, u.Waiting
		if u.Worked == 0 {
			return all
		}
	}
	require.Fail(t, "it never ends")
	return all
}

// after draws which tasks of a history a new one waits for: the request to the store, and the one to the model.
func (m *machine) after(t *rapid.T, r store.EnqueueRequest) (got, ideal store.EnqueueRequest) {
	got, ideal = r, r
	if len(m.tasks) == 0 || !rapid.Bool().Draw(t, "waits") {
		return got, ideal
	}
	for range rapid.IntRange(1, 3).Draw(t, "after") {
		p := m.tasks[rapid.IntRange(max(0, len(m.tasks)-6), len(m.tasks)-1).Draw(t, "task")]
		if _, err := m.ideal.Get(t.Context(), p.ideal); err == nil { // it is not past its retention
			got.After, ideal.After = append(got.After, p.real), append(ideal.After, p.ideal)
		}
	}
	if len(got.After) > 0 && rapid.Bool().Draw(t, "any") {
		got.AfterIf, ideal.AfterIf = store.AfterIfAny, store.AfterIfAny
	}
	return got, ideal
}

// unblock has rows that wait for others freed or cancelled.
func (m *machine) unblock(t *rapid.T) {
	ctx := m.begin()
	want := unblockAll(ctx, m.t, m.ideal, 1000)
	left, err := m.real.Left(ctx)
	require.NoError(m.t, err)
	got := unblockAll(ctx, m.t, m.real, rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "rows of a step"))
	require.Equal(m.t, want.Freed, got.Freed, "rows that were freed")
	require.Equal(m.t, want.Cancelled, got.Cancelled, "rows that were cancelled")
	require.Equal(m.t, want.Revived, got.Revived, "rows that were revived")
	require.Equal(m.t, want.Missed, got.Missed, "whether some are left")
	if !left.Ends {
		require.Zero(m.t, got.Worked+got.Freed+got.Cancelled+got.Revived, "work of which the look said that there is none")
	}
	left, err = m.real.Left(ctx)
	require.NoError(m.t, err)
	require.Equal(m.t, got.Waiting, left.Waiting, "whether rows wait for others")
}

// because finds the task on account of which another was cancelled, and the one that was in the way of its revival.
var because = regexp.MustCompile(`(^|: )task (\d+) `)

// reason is an error with the places of the tasks that it names, instead of their numbers.
func (m *machine) reason(text string, ids taskSide) string {
	return because.ReplaceAllStringFunc(text, func(found string) string {
		part := because.FindStringSubmatch(found)
		n, err := strconv.ParseInt(part[2], 10, 64)
		if err != nil {
			return found
		}
		return fmt.Sprintf("%stask #%d ", part[1], place(m.tasks, ids, task.ID(n)))
	})
}
