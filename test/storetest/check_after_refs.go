package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func afterRefChecks() []Check {
	return []Check{
		{"rows of a batch name rows before them", afterRefs},
		{"a row that is refused refuses the batch", afterRefsRefused},
	}
}

// afterRefs creates a batch of more rows than are sent at once, and runs it.
func afterRefs(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	before := r.insert(1)[0]
	rows := []store.EnqueueRequest{
		{Type: kind}, // which none names, as the last one
		{Type: kind, Ref: true},
		{Type: kind, Ref: true, AfterRefs: []int64{0}},
		{Type: kind},
		{Type: kind, AfterRefs: []int64{0, 1}, After: []task.ID{before}, AfterIf: store.AfterIfAny},
	}
	var all []int64
	for i := range 600 {
		rows = append(rows, store.EnqueueRequest{Type: kind, AfterRefs: []int64{1}, Ref: i%2 == 0})
		if i%2 == 0 {
			all = append(all, int64(2+i/2))
		}
	}
	rows = append(rows, store.EnqueueRequest{Type: kind, AfterRefs: all}, store.EnqueueRequest{Type: kind})
	var counted int64
	id, err := r.h.CreateBatch(r.ctx, store.BatchRequest{}, rowsThen(nil, rows...), func(n int64) { counted = n })
	require.NoError(t, err)
	require.EqualValues(t, len(rows), counted)
	list := make([]task.ID, len(rows))
	for i := range rows {
		list[i] = before + 1 + task.ID(i)
	}
	require.Equal(t, list[1:2], neighbourIDs(r.get(list[2]).Related.After))
	require.Equal(t, []task.ID{before, list[1], list[2]}, neighbourIDs(r.get(list[4]).Related.After))
	fanIn := r.get(list[605]).Related
	require.Equal(t, 300, fanIn.AfterTotal)
	require.Equal(t, []task.ID{list[5], list[7]}, neighbourIDs(fanIn.After[:2]))
	// They run in that order.
	for _, want := range [][]task.ID{{before, list[0], list[1], list[3], list[606]}, {list[2]}, list[4:605], {list[605]}} {
		unblockAll(r.ctx, t, r, 1000)
		got := r.run(1000)
		require.ElementsMatch(t, want, ids(got))
		var ends []store.Settlement
		for _, row := range got {
			ends = append(ends, finish(row))
		}
		r.settled(ends...)
	}
	r.fold()
	require.NotNil(t, r.look(id).EndedAt)
}

func neighbourIDs(list []store.Neighbour) (ids []task.ID) {
	for _, n := range list {
		ids = append(ids, n.ID)
	}
	return ids
}

func afterRefsRefused(t testing.TB, h Harness) {
	r := newAfterRig(t, h)
	live := r.Insert(t, store.EnqueueRequest{Type: kind, Key: "k"})[0]
	before := r.stats().Waiting
	for what, q := range map[string]store.EnqueueRequest{
		"a key that is taken": {Key: "k"}, "an unknown id": {After: []task.ID{live + 1000}},
	} {
		q.Type, q.AfterRefs = kind, []int64{0}
		_, err := r.h.CreateBatch(r.ctx, store.BatchRequest{}, rowsThen(nil, store.EnqueueRequest{Type: kind, Ref: true}, q), nil)
		require.Error(t, err, what)
		require.Equal(t, before, r.stats().Waiting, "nothing was inserted")
	}
}
