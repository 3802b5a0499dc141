package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// bulkPreviewed: a preview looks at the newest tasks first, and of a batch at no others.
func bulkPreviewed(t testing.TB, h Harness) {
	r := newBulkRig(t, h)
	row := store.EnqueueRequest{Type: kind}
	old := r.Insert(t, row)[0]
	group, _ := r.batch(store.BatchRequest{Open: true})
	require.NoError(t, r.add(group, row))
	require.NoError(t, r.add(group, row))
	of := r.rows(group)
	rows := r.Insert(t, slices.Repeat([]store.EnqueueRequest{row}, store.BulkLooked)...)
	counts := func(f store.BulkFilter, most int, within time.Duration) store.BulkCount {
		c, err := r.work.Count(r.ctx, &store.BulkRequest{Verb: store.VerbCancel, Filter: f}, most, within)
		require.NoError(t, err)
		require.Equal(t, r.get(c.Back).CreatedAt, c.BackTo)
		return c
	}
	const all = store.BulkLooked + 3
	for name, c := range map[string]store.BulkCount{
		"tasks": counts(store.BulkFilter{Type: kind}, 1, time.Hour), "time": counts(store.BulkFilter{Type: kind}, all, 0),
	} {
		require.Equal(t, store.BulkCount{Tasks: store.BulkLooked, Back: rows[0], BackTo: c.BackTo}, c, "%s: it takes one look", name)
	}
	c := counts(store.BulkFilter{Type: kind}, all, time.Hour)
	require.Equal(t, store.BulkCount{Tasks: all, All: true, Back: old, BackTo: c.BackTo}, c)
	c = counts(store.BulkFilter{Batch: group}, 1, 0)
	require.Equal(t, store.BulkCount{Tasks: 2, All: true, Back: of[0].ID, BackTo: c.BackTo}, c)
	require.EqualValues(t, all, r.ends(r.starts(store.VerbCancel, store.BulkFilter{Type: kind}), 1000).Done, "the change is for all")
}
