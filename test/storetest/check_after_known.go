package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// succeeds ends a row that runs with a result.
func succeeds(row task.Task, result string) store.Settlement {
	s := finish(row)
	s.Outcome.Result = json.RawMessage(result)
	return s
}

// known asserts what a run gets to know, in a short form: id, type, state and result of each.
func (r *afterRig) known(id task.ID, truncated bool, want ...string) {
	r.t.Helper()
	after, err := r.Predecessors(r.ctx, id)
	require.NoError(r.t, err)
	var got []string
	for _, p := range after.Tasks {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s %s %s", p.ID, p.Type, p.State, strings.ReplaceAll(string(p.Result), " ", ""))))
	}
	require.Equal(r.t, want, got)
	require.Equal(r.t, truncated, after.Truncated)
}

func afterKnown(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(3)
	id := r.Insert(t, store.EnqueueRequest{
		Type: kind, AfterIf: store.AfterIfAny, After: []task.ID{first[2], first[0], first[1], first[0]},
	})[0]
	r.unblocked(0, 0)
	got := r.run(3)
	for _, row := range got {
		require.False(t, row.HasAfter)
	}
	r.known(first[0], false)
	r.settled(succeeds(got[0], `{"n":1}`), fails(got[1]), finish(got[2]))
	r.unblocked(1, 0)
	got = r.run(3)
	require.Equal(t, []task.ID{id}, ids(got))
	require.True(t, got[0].HasAfter)
	ended := []string{
		fmt.Sprintf(`%d %s succeeded {"n":1}`, first[0], kind), fmt.Sprintf("%d %s failed", first[1], kind),
		fmt.Sprintf(`%d %s succeeded {"ok":true}`, first[2], kind),
	}
	r.known(id, false, ended...)
	r.did(became(task.StatePending), r.h.Retry, first[1], "") // a later attempt knows what is so then
	ended[1] = fmt.Sprintf("%d %s pending", first[1], kind)
	r.known(id, false, ended...)
	r.settled(fails(r.run(3)[0]))

	r.Advance(t, 10*day) // no row waits for them now
	r.present()
	r.maintain(7 * day)
	r.known(id, false, fmt.Sprint(first[0]), fmt.Sprint(first[1]), fmt.Sprint(first[2]))
}

func afterKnownBounded(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	many := r.insert(task.MostAfter + 1)
	all, most := r.after(many...), r.after(many[:task.MostAfter]...)
	r.unblocked(0, 0)
	large := `"` + strings.Repeat("x", task.MostAfterBytes/5) + `"` // four of them fit
	rows := r.run(len(many))
	slices.SortFunc(rows, func(a, b task.Task) int { return int(a.ID - b.ID) })
	var ends []store.Settlement
	for i, row := range rows {
		if i >= 2 && i < 5 {
			ends = append(ends, succeeds(row, large))
		} else {
			ends = append(ends, finish(row))
		}
	}
	r.settled(ends...)
	r.unblocked(2, 0)
	after, err := r.Predecessors(r.ctx, most)
	require.NoError(t, err)
	require.Len(t, after.Tasks, task.MostAfter)
	require.False(t, after.Truncated)
	after, err = r.Predecessors(r.ctx, all)
	require.NoError(t, err)
	require.Len(t, after.Tasks, task.MostAfter)
	require.True(t, after.Truncated, "one is left out")

	six := r.insert(6)
	id := r.after(six...)
	r.unblocked(0, 0)
	ends = nil
	for _, row := range r.claimed(six) {
		ends = append(ends, succeeds(row, large))
	}
	r.settled(ends...)
	r.unblocked(1, 0)
	after, err = r.Predecessors(r.ctx, id)
	require.NoError(t, err)
	require.Len(t, after.Tasks, 4, "what is larger is left out")
	require.True(t, after.Truncated)
	require.Equal(t, large, string(after.Tasks[3].Result))
}

// claimed claims all rows that are due, and returns some of them.
func (r *afterRig) claimed(of []task.ID) []task.Task {
	r.t.Helper()
	return slices.DeleteFunc(r.run(1000), func(row task.Task) bool { return !slices.Contains(of, row.ID) })
}
