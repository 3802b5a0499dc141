package check

import (
	"maps"
	"slices"

	"github.com/leasehold/leasehold/internal/task"
)

// FailureOnce says: each task that has failed for good has one row of on_failed in each round in which it has, with the state in which
// it ended first there, and no other task has one.
//
// It must hold because the row is inserted in the transaction that ends the task, which is applied once, and the task notes that it has
// its row until it is retried.
const FailureOnce Name = "FailureOnce"

func failureOnce(x *index, f *found) {
	if !x.h.Mourned || len(x.h.Moves) == 0 {
		return
	}
	graves := make(map[int64][]string)
	for _, g := range x.h.Graves {
		graves[g.ID] = append(graves[g.ID], g.State)
	}
	for _, s := range x.records {
		first := make(map[int]string) // by round
		for _, m := range s.moves {
			if _, seen := first[m.Round]; m.Archived && !seen && task.FailedForGood(task.State(m.State), task.Verdict(m.Cause)) {
				first[m.Round] = m.State
			}
		}
		var want []string
		for _, round := range slices.Sorted(maps.Keys(first)) {
			want = append(want, first[round])
		}
		if got := graves[s.id]; !slices.Equal(want, got) {
			f.add(FailureOnce, x.last(s), s.id, "it has failed for good as %q, and rows of on_failed say %q", want, got)
		}
		delete(graves, s.id)
	}
	for _, id := range slices.Sorted(maps.Keys(graves)) {
		f.add(FailureOnce, 0, id, "there is no such task, and a row of on_failed for it")
	}
}
