package storetest

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func bulkCancelsOnce(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	rows := r.Insert(t, slices.Repeat([]store.EnqueueRequest{{Type: kind}}, 3)...)
	id := r.starts("cancel", store.BulkFilter{Type: kind})
	for range 20 { // an operator retries each at once: it matches again
		if !r.takes(1).Found {
			break
		}
		for _, row := range rows {
			if r.get(row).State == task.StateCancelled {
				r.did("pending", r.h.Retry, row, "")
			}
		}
	}
	b := r.seen(id)
	require.NotNil(t, b.EndedAt)
	require.EqualValues(t, 3, b.Done)
	for _, row := range rows {
		require.Equal(t, 1, r.get(row).Round, "it was cancelled once")
	}
	r.in(task.StatePending, rows...)
}
