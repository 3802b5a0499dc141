package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Of many rows a part is counted. What few rows have is exact all the same, and so is for how long the oldest has been due.
func TestCountsOfManyRowsAreBounds(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.exec(t, `
		INSERT INTO SCHEMA.task (type, priority, run_at) SELECT 'many', 10, now() + interval '1 day' FROM generate_series(1, 20000);
		INSERT INTO SCHEMA.task (type, priority, run_at) SELECT 'many', -10, now() - interval '1 hour' FROM generate_series(1, 3);
		INSERT INTO SCHEMA.task (type) SELECT 'few' FROM generate_series(1, 7);
		INSERT INTO SCHEMA.task (type, tenant) SELECT 'tenants', 'a' FROM generate_series(1, 11000);
		ANALYZE SCHEMA.task`)
	got, err := h.Counts(t.Context())
	require.NoError(t, err)
	require.True(t, got.More)
	counted := map[string]store.TypeCount{}
	for _, c := range got.Waiting {
		require.Equal(t, task.StatePending, c.State)
		counted[c.Type] = c
	}
	require.Equal(t, store.TypeCount{Type: "few", State: task.StatePending, N: 7}, counted["few"])
	for _, typ := range []string{"many", "tenants"} {
		require.True(t, counted[typ].More)
		require.LessOrEqual(t, counted[typ].N, int64(store.CountedAll+1))
		require.GreaterOrEqual(t, counted[typ].N, int64(store.CountedAll/2))
		require.Equal(t, counted[typ].N, got.Orphans[typ])
	}
	require.EqualValues(t, 3, got.Due["many"])
	require.InDelta(t, time.Hour, got.OldestDue["many"], float64(time.Minute))
}
