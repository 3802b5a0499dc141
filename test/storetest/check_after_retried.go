package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// afterRevivalChecks are about rows that were cancelled on account of one that is retried.
func afterRevivalChecks() []Check {
	return []Check{
		{"a retry revives what was cancelled for it", afterComesBack},
		{"and what was cancelled for those", afterComesBackDeep},
		{"in small steps and again", afterComesBackInSteps},
		{"not what cannot", afterCannotComeBack},
		{"of a batch that is stopped or has ended", afterComesBackOfBatch},
		{"a batch does not end before", afterHoldsBatch},
		{"a retry of a batch", afterBatchRetried},
		{"a lost step of revival is repeated", afterComesBackCrash},
	}
}

// comeBack asserts how many rows are revived, in steps of that size.
func (r *afterRig) comeBack(most, revived int) {
	r.t.Helper()
	u := unblockAll(r.ctx, r.t, r, most)
	require.Equal(r.t, []int{revived, 0, 0}, []int{u.Revived, u.Freed, u.Cancelled}, "rows that were revived, freed, and cancelled")
	require.Zero(r.t, unblockAll(r.ctx, r.t, r, most).Worked, "a repeat does nothing")
}

// cancelledFor asserts which rows were cancelled on account of one, and what is in the way of their revival.
func (r *afterRig) cancelledFor(id task.ID, want ...store.Neighbour) {
	r.t.Helper()
	got := r.get(id).Related
	if len(want) == 0 {
		require.True(r.t, got == nil || got.CancelledTotal == 0 && got.Cancelled == nil)
		return
	}
	for i := range want {
		want[i].Type, want[i].State = kind, task.StateCancelled
	}
	require.NotNil(r.t, got)
	require.Equal(r.t, want, got.Cancelled)
	require.Equal(r.t, len(want), got.CancelledTotal)
}

// failed inserts a row, has others wait for it by names, and fails it. It returns the row.
func (r *afterRig) failed(waiting func(first task.ID)) task.ID {
	r.t.Helper()
	first := r.insert(1)[0]
	waiting(first)
	unblockAll(r.ctx, r.t, r, 1000)
	for _, row := range r.run(10) {
		if row.ID == first {
			r.settled(fails(row))
		}
	}
	unblockAll(r.ctx, r.t, r, 1000)
	return first
}

func afterComesBack(t testing.TB, h Harness) {
	for way, sql := range map[string]bool{"Go": false, "SQL": true} {
		r := newAfterRig(t, h)
		var second, both, either task.ID
		first := r.failed(func(first task.ID) {
			second, both = r.after(first), r.after(first, first)
			either = r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{first}, AfterIf: store.AfterIfAny})[0]
		})
		r.cancelledFor(first, store.Neighbour{ID: second}, store.Neighbour{ID: both})
		retry := r.h.Retry
		if sql {
			retry = r.sql.Retry
		}
		r.did(became(task.StatePending), retry, first, "alice")
		r.waiting(nil, second, both)
		r.comeBack(1000, 2)
		r.waiting([]task.ID{second, both}, second, both)
		r.cancelledFor(first)
		for _, id := range []task.ID{second, both} {
			got := r.get(id)
			require.Equal(t, task.StatePending, got.State, way)
			require.Zero(t, got.Related.CancelledFor)
		}
		// It fails once more, and is retried before agents have seen that.
		for _, row := range r.run(5) {
			require.Contains(t, []task.ID{first, either}, row.ID, "the others wait")
			if row.ID == first {
				r.settled(fails(row))
			}
		}
		r.unblocked(0, 2)
		r.did(became(task.StatePending), retry, first, "alice")
		r.settled(finish(r.run(5)[0]))
		u := unblockAll(r.ctx, t, r, 1000)
		require.Equal(t, []int{2, 2, 0}, []int{u.Revived, u.Freed, u.Cancelled})
		require.Equal(t, []task.ID{second, both}, ids(r.run(5)))
	}
}

func afterComesBackDeep(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	var chain []task.ID
	first := r.failed(func(first task.ID) {
		chain = []task.ID{r.after(first)}
		for range 3 {
			chain = append(chain, r.after(chain[len(chain)-1], first))
		}
	})
	other := r.after(chain[3])
	r.unblocked(0, 1)
	r.did(became(task.StatePending), r.h.Retry, first, "")
	r.comeBack(1000, 5)
	for _, id := range append([]task.ID{first}, append(chain, other)...) {
		got := r.run(5)
		require.Equal(t, []task.ID{id}, ids(got))
		r.settled(finish(got[0]))
		unblockAll(r.ctx, t, r, 1000)
	}
	// One that still cannot succeed: the second of two has failed, too.
	two := r.insert(2)
	id := r.after(two...)
	rows := r.run(5)
	r.settled(fails(rows[0]), fails(rows[1]))
	r.unblocked(0, 1)
	r.did(became(task.StatePending), r.h.Retry, two[0], "")
	r.comeBack(1000, 1)
	r.settled(finish(r.run(5)[0]))
	r.unblocked(0, 1)
	require.Equal(t, store.WhyCancelled(two[1], task.StateFailed), r.get(id).Error)
	r.cancelledFor(two[0])
	r.cancelledFor(two[1], store.Neighbour{ID: id})
	r.did(became(task.StatePending), r.h.Retry, two[1], "")
	r.comeBack(1000, 1)
}

func afterComesBackInSteps(t testing.TB, h Harness) {
	for _, most := range []int{1, 2, 7} {
		r := newAfterRig(t, h)
		var all []task.ID
		first := r.failed(func(first task.ID) {
			for range 8 {
				all = append(all, r.after(first))
			}
		})
		next := r.after(all...)
		r.unblocked(0, 1)
		r.did(became(task.StatePending), r.h.Retry, first, "")
		u, err := r.Unblock(r.ctx, most)
		require.NoError(t, err)
		require.Equal(t, most, u.Revived, "no more than a step's")
		r.comeBack(most, 9-most)
		r.waiting(append(all, next), append(all, next)...)
		r.settled(finish(r.run(5)[0]))
		r.stepped(most, 8, 0)
		require.Equal(t, all, ids(r.run(20)))
	}
}

func afterCannotComeBack(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	var keyed, twin, free, next task.ID
	first := r.failed(func(first task.ID) {
		keyed = r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{first}, Key: "k"})[0]
		next = r.after(keyed)
		free = r.after(first)
	})
	live := r.Insert(t, store.EnqueueRequest{Type: kind, Key: "k"})[0]
	r.cancelledFor(first, store.Neighbour{ID: keyed, Barred: store.BarredByKey(live)}, store.Neighbour{ID: free})
	r.did(became(task.StatePending), r.h.Retry, first, "")
	r.comeBack(1000, 1)
	r.waiting([]task.ID{free}, keyed, free, next)
	require.Equal(t, task.StateCancelled, r.state(next))
	want := store.NotRevivedError(store.WhyCancelled(first, task.StateFailed), store.BarredByKey(live))
	require.Equal(t, want, r.get(keyed).Error)
	r.cancelledFor(first, store.Neighbour{ID: keyed, Barred: store.BarredByKey(live)})
	for _, row := range r.run(5) {
		end := finish(row)
		if row.ID == first {
			end = fails(row)
		}
		r.settled(end)
	}
	r.unblocked(0, 1)
	// The key is free, and another takes it that was cancelled for the same one.
	twin = r.Insert(t, store.EnqueueRequest{Type: kind, After: []task.ID{first}, Key: "k"})[0]
	r.unblocked(0, 1)
	r.cancelledFor(first, store.Neighbour{ID: keyed}, store.Neighbour{ID: free}, store.Neighbour{ID: twin})
	r.did(became(task.StatePending), r.h.Retry, first, "")
	r.comeBack(1000, 3)
	r.waiting([]task.ID{keyed, free, next}, keyed, free, twin, next)
	require.Equal(t, store.NotRevivedError(store.WhyCancelled(first, task.StateFailed), store.BarredByKey(keyed)), r.get(twin).Error)
	// A later refusal replaces an earlier one.
	r.settled(fails(r.run(5)[0]))
	r.unblocked(0, 3)
	live = r.Insert(t, store.EnqueueRequest{Type: kind, Key: "k"})[0]
	r.did(became(task.StatePending), r.h.Retry, first, "")
	r.comeBack(1000, 1)
	require.Equal(t, store.NotRevivedError(store.WhyCancelled(first, task.StateFailed), store.BarredByKey(live)), r.get(twin).Error)
}

func afterComesBackOfBatch(t testing.TB, h Harness) {
	for _, stops := range []bool{false, true} {
		r := newAfterRig(t, h)
		var b task.BatchID
		var rows []task.ID
		first := r.failed(func(first task.ID) {
			b, rows = r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind, After: []task.ID{first}}, store.EnqueueRequest{Type: "other"})
		})
		barred := store.BarredByBatch(b, true, "")
		other := r.claim(want("other", 1))[0]
		if stops {
			_, err := r.CancelBatch(r.ctx, b, "")
			require.NoError(t, err)
			barred = store.BarredByBatch(b, false, "cancel")
		} else {
			r.settled(finish(other))
			r.fold()
			require.NotNil(t, r.look(b).EndedAt)
		}
		r.cancelledFor(first, store.Neighbour{ID: rows[0], Barred: barred})
		r.did(became(task.StatePending), r.h.Retry, first, "")
		r.comeBack(1000, 0)
		require.Equal(t, store.NotRevivedError(store.WhyCancelled(first, task.StateFailed), barred), r.get(rows[0]).Error)
		r.cancelledFor(first, store.Neighbour{ID: rows[0], Barred: barred})
		if !stops { // an operator can
			r.did(became(task.StatePending), r.h.Retry, rows[0], "")
			r.waiting(rows[:1], rows[0])
		}
	}
}

// afterHoldsBatch has the rows of a batch wait for another of it, which is retried once the batch has ended.
func afterHoldsBatch(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	first := r.Insert(t, store.EnqueueRequest{Type: "other"})[0]
	b, all := r.batch(store.BatchRequest{FinishType: "finish"}, store.EnqueueRequest{Type: kind, After: []task.ID{first}})
	r.did(became(task.StateCancelled), r.h.Cancel, first, "")
	r.unblocked(0, 1)
	second, mine := r.batch(store.BatchRequest{FinishType: "finish"}, store.EnqueueRequest{Type: kind})
	require.NotEqual(t, b, second)
	id := r.Insert(t, store.EnqueueRequest{Type: kind, After: mine})[0]
	r.settled(fails(r.run(5)[0]))
	r.unblocked(0, 1)
	r.fold()
	require.NotNil(t, r.look(second).EndedAt)
	r.did(became(task.StatePending), r.h.Retry, mine[0], "")
	r.settled(finish(r.run(5)[0]))
	r.fold()
	require.Nil(t, r.look(second).EndedAt, "rows may come back that are of it")
	u := unblockAll(r.ctx, t, r, 1000)
	require.Equal(t, []int{1, 1}, []int{u.Revived, u.Freed})
	r.fold()
	require.NotNil(t, r.look(second).EndedAt)
	require.Equal(t, []task.ID{id}, ids(r.run(5)))
	require.Equal(t, task.StateCancelled, r.state(all[0]))
}

func afterBatchRetried(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	b, all := r.batch(store.BatchRequest{}, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind})
	mine := []task.ID{r.after(all...), r.after(all[1])}
	rows := r.run(5)
	r.settled(finish(rows[0]), fails(rows[1]))
	r.unblocked(0, 2)
	r.fold()
	_, err := r.RetryBatch(r.ctx, b, "alice")
	require.NoError(t, err)
	r.steps()
	r.comeBack(1000, 2)
	got := r.run(5)
	require.Equal(t, all[1:], ids(got))
	r.settled(finish(got[0]))
	r.unblocked(2, 0)
	require.Equal(t, mine, ids(r.run(5)))
	r.fold()
	require.NotNil(t, r.look(b).EndedAt)
}

func afterComesBackCrash(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	for _, point := range r.Failpoints() {
		var id, next task.ID
		first := r.failed(func(first task.ID) {
			id = r.after(first)
			next = r.after(id)
		})
		r.did(became(task.StatePending), r.h.Retry, first, "")
		for range 3 {
			hit := r.crash(point)
			_, err := r.Unblock(r.ctx, 1000)
			r.Fail(nil)
			if hit() {
				require.ErrorIs(t, err, errCrash, point)
			}
		}
		unblockAll(r.ctx, t, r, 1000)
		for _, want := range []task.ID{first, id, next} {
			got := r.run(5)
			require.Equal(t, []task.ID{want}, ids(got), point)
			r.settled(finish(got[0]))
			unblockAll(r.ctx, t, r, 1000)
		}
		r.Advance(t, time.Second)
	}
}
