package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestAHeldSnapshotDoesNotSlowTurns counts the pages that a claim of many tenants touches while dead rows cannot be removed.
func TestAHeldSnapshotDoesNotSlowTurns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := joined(t, h)
	a.FreezeLowWater()
	claim := func(n int) []string {
		a.claims++
		rows, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(n)}})
		require.NoError(t, err)
		require.Len(t, rows, n)
		var tenants []string
		for i := range rows {
			tenants = append(tenants, rows[i].Tenant)
		}
		return tenants
	}
	buffers := func() int64 {
		a.claims++
		n, err := a.BuffersOfTurns(t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(40)}})
		require.NoError(t, err)
		return n
	}
	const tenants = 200
	h.exec(t, `INSERT INTO SCHEMA.task (type, tenant) SELECT 'a', 'tenant ' || n % 200 FROM generate_series(1, 30000) AS n`)
	claim(tenants)
	clean := buffers()
	tx, err := pgtest.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()`)
	require.NoError(t, err)
	for range 40 { // fewer rows of each than after which a lane has marks anyway
		claim(tenants)
	}
	above := buffers()
	a.ForgetLowWater()
	zero := buffers()
	t.Logf("buffers: %d without dead rows, %d above the marks, %d from zero", clean, above, zero)
	require.Less(t, above, 2*clean)
	require.Less(t, 3*above/2, zero, "index entries below the marks are passed over")
	require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context())))
}
