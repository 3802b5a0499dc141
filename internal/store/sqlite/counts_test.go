package sqlite

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
	h := newHarness(t)
	insert := func(n, columns, values string) {
		require.NoError(t, h.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < `+n+`)
			INSERT INTO task (`+columns+`) SELECT `+values+` FROM n`))
	}
	ago := stamp(h.Now().Add(-time.Hour))
	insert("20000", "type, priority, run_at", "'many', 10, '2999-01-01T00:00:00.000Z'")
	insert("3", "type, priority, run_at", "'many', -10, '"+ago+"'")
	insert("7", "type", "'few'")
	insert("11000", "type, tenant", "'tenants', 'a'")
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
