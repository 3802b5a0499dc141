package storetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Batches that Go creates.

func batchGo(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	q := full(r.now())
	q.RollbackPayload = raw(`{"was":"az1"}`)
	var notified []int64
	id, err := r.h.CreateBatch(r.ctx, store.BatchRequest{Name: "by Go"}, rowsThen(nil, q, store.EnqueueRequest{Type: kind}),
		func(n int64) { notified = append(notified, n) })
	require.NoError(t, err)
	require.NotEmpty(t, notified)
	require.EqualValues(t, 2, notified[len(notified)-1])
	got := r.inState(id, store.BatchPending)
	require.EqualValues(t, 2, got.Total)
	require.True(t, got.Sealed)
	rows := r.list(store.TaskFilter{Batch: id})
	require.Len(t, rows, 2)
	first := r.get(min(rows[0], rows[1]))
	require.Equal(t, id, first.Batch)
	require.Equal(t, q.Key, first.Key)
	require.Equal(t, q.Region, first.Region)
	require.Equal(t, q.Priority, first.Priority)
	require.Equal(t, q.MaxAttempts, first.MaxAttempts)
	require.Equal(t, q.Traceparent, first.Traceparent)
	require.Equal(t, q.CreatedBy, first.CreatedBy)
	require.Equal(t, q.RunAt.UnixMilli(), first.RunAt.UnixMilli())
	sameJSON(t, `{"invoice":7}`, first.Payload, "payload")
	sameJSON(t, `{"tenant":"acme"}`, first.Labels, "labels")
	sameOr(t, q.RollbackPayload, first.RollbackPayload, "rollback payload")
	second := r.get(max(rows[0], rows[1]))
	sameJSON(t, `{}`, second.Payload, "payload")
	require.Nil(t, second.RollbackPayload)
	require.Nil(t, second.Labels)
	near(t, r.now(), second.RunAt)
	require.Equal(t, []task.ID{second.ID, first.ID}, rows, "ids rise in the order of the rows")

	id, err = r.h.CreateBatch(r.ctx, store.BatchRequest{Open: true}, rowsThen(nil), nil)
	require.NoError(t, err)
	require.NoError(t, r.add(id, store.EnqueueRequest{Type: kind}))
	require.EqualValues(t, 1, r.inState(id, store.BatchPending).Total)
}

func batchGoMany(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	const n = 12_345
	given := 0
	last := int64(0)
	id, err := r.h.CreateBatch(r.ctx, store.BatchRequest{}, func(yield func(store.EnqueueRequest, error) bool) {
		for i := range n {
			given++
			if !yield(store.EnqueueRequest{Type: kind, Payload: raw(fmt.Sprintf(`{"n":%d}`, i))}, nil) {
				return
			}
		}
	}, func(n int64) {
		require.GreaterOrEqual(t, n, last, "it only rises")
		last = n
	})
	require.NoError(t, err)
	require.Equal(t, n, given)
	require.EqualValues(t, n, last)
	got := r.look(id)
	require.EqualValues(t, n, got.Total)
	require.EqualValues(t, n, got.Waiting)
	require.Equal(t, store.BatchPending, got.State)
	r.fold()
	require.Equal(t, got, r.look(id))
	require.Len(t, r.claim(wantOf(kind, task.Run, 500)), 500, "they can be claimed at once")
	got = r.look(id)
	require.EqualValues(t, 500, got.Running)
	require.EqualValues(t, n-500, got.Waiting)
}

func batchGoNothing(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	live := r.enqueue(store.EnqueueRequest{Type: kind, Key: "taken"}, true)
	wrong := fmt.Errorf("line 3: %w", errNoMore)
	_, err := r.h.CreateBatch(r.ctx, store.BatchRequest{}, rowsThen(wrong, store.EnqueueRequest{Type: kind}, store.EnqueueRequest{Type: kind}), nil)
	require.ErrorIs(t, err, errNoMore)
	for name, rows := range map[string][]store.EnqueueRequest{
		"a key twice":        {{Type: kind, Key: "a"}, {Type: kind, Key: "a"}},
		"a key that is live": {{Type: kind}, {Type: kind, Key: "taken"}},
		"a bad value":        {{Type: kind}, {Type: kind, Priority: 11}},
	} {
		_, err := r.h.CreateBatch(r.ctx, store.BatchRequest{}, rowsThen(nil, rows...), nil)
		require.Error(t, err, name)
	}
	list, err := r.h.ListBatches(r.ctx, store.BatchFilter{})
	require.NoError(t, err)
	require.Empty(t, list)
	require.Equal(t, []task.ID{live}, r.list(store.TaskFilter{}))
}
