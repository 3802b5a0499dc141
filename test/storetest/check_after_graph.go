package storetest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func afterGraph(t testing.TB, h Harness) {
	for _, early := range []bool{true, false} {
		r := newAfterRig(t, h)
		look := func() {
			if early {
				r.unblocked(0, 0)
			}
		}
		start := r.insert(1)[0]
		var middle []task.ID
		for range 20 {
			middle = append(middle, r.after(start))
			look()
		}
		end := r.after(middle...)
		last := r.after(end, start)
		look()
		order := [][]task.ID{{start}, middle, {end}, {last}}
		for n, want := range order {
			got := r.run(50)
			require.ElementsMatch(t, want, ids(got))
			for i, row := range got {
				r.settled(finish(row))
				if i == len(got)-1 && n+1 < len(order) {
					r.unblocked(len(order[n+1]), 0)
				} else {
					r.unblocked(0, 0)
				}
			}
		}
	}
}

// afterSteps makes steps that are smaller than what there is to do.
func afterSteps(t testing.TB, h Harness) {
	for _, most := range []int{1, 2, 7} {
		r := newAfterRig(t, h)
		first := r.insert(10)
		var all []task.ID
		for range 10 {
			all = append(all, r.after(first...))
		}
		r.stepped(most, 0, 0)
		r.waiting(all, all...)
		rows := r.run(10)
		for _, row := range rows[:9] {
			r.settled(finish(row))
		}
		r.stepped(most, 0, 0)
		r.settled(finish(rows[9]))
		r.stepped(most, 10, 0)
		got := r.run(20)
		require.ElementsMatch(t, all, ids(got))
		for _, row := range got {
			r.settled(finish(row))
		}
	}
}

func afterMost(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)[0]
	id := r.after(slices.Repeat([]task.ID{first}, store.MaxAfter)...)
	_, _, err := r.Enqueue(r.ctx, store.EnqueueRequest{Type: kind, After: slices.Repeat([]task.ID{first}, store.MaxAfter+1)})
	require.ErrorContains(t, err, "after")
	r.unblocked(0, 0)
	r.settled(finish(r.run(5)[0]))
	r.unblocked(1, 0)
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
}

// afterCrash has a store crash at each point of a step.
func afterCrash(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	for _, point := range r.Failpoints() {
		first := r.insert(1)
		id := r.after(first...)
		for n := range 4 {
			if n == 2 {
				r.settled(finish(r.run(5)[0]))
			}
			hit := r.crash(point)
			_, err := r.Unblock(r.ctx, 1000)
			r.Fail(nil)
			if hit() {
				require.ErrorIs(t, err, errCrash, point)
			}
			unblockAll(r.ctx, t, r, 1000)
		}
		got := r.run(5)
		require.Equal(t, []task.ID{id}, ids(got), point)
		r.settled(finish(got[0]))
	}
}

// afterKept has applications keep rows where they are: those that wait, and those that are waited for.
func afterKept(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.insert(1)
	id := r.after(first...)
	release := r.LockRow(t, first[0])
	if release == nil {
		return // this store has no locks on rows
	}
	r.unblocked(0, 0) // a lock for a key share lets the mark pass
	release()
	release = r.LockRow(t, id)
	r.settled(finish(r.run(5)[0]))
	u := unblockAll(r.ctx, t, r, 1000)
	release()
	if u.Freed == 0 {
		r.unblocked(1, 0)
	}
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
}
