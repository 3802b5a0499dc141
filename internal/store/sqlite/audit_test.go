package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// TestAuditOfManyEntries looks at no more entries than it may, and says how far it came.
func TestAuditOfManyEntries(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)
		INSERT INTO audit (at, verb, task_id, answer) SELECT '2026-11-20T08:00:00.000Z', 'cancel', i, 'cancelled' FROM n`))
	page, err := ops.PageAudit(t.Context(), h, store.AuditFilter{Verb: "retry"})
	require.NoError(t, err)
	require.Empty(t, page.Entries)
	require.NotNil(t, page.LookedBack)
	require.GreaterOrEqual(t, page.Before, int64(150_001))
	require.Equal(t, &ops.AuditLookedBack{ID: page.Before, At: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}, page.LookedBack)

	since := time.Date(2026, 11, 20, 8, 0, 0, 1e6, time.UTC)
	page, err = ops.PageAudit(t.Context(), h, store.AuditFilter{Since: &since})
	require.NoError(t, err)
	require.Equal(t, ops.AuditPage{Entries: []store.AuditEntry{}}, page, "all else is older")

	page, err = ops.PageAudit(t.Context(), h, store.AuditFilter{Task: 7, Verb: "cancel"})
	require.NoError(t, err)
	require.Len(t, page.Entries, 1)
	require.Zero(t, page.Before)
}
