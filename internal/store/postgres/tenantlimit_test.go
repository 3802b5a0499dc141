package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// eachOf bounds each tenant of the type that wantOf wants.
func eachOf(of store.TenantLimit) store.Agent {
	a := someAgent()
	w := wantOf(1)
	a.Limits = []store.TypeLimit{{Name: w.Type, Types: []string{w.Type}, Tenant: of}}
	return a
}

// TestClaimsOfATenantSeeWhatTheOneBeforeTook: a claim that waits for its turn counts what the one before it has taken of a tenant, which runs, or
// ran and keeps its place, and the token that it has taken.
func TestClaimsOfATenantSeeWhatTheOneBeforeTook(t *testing.T) {
	t.Parallel()
	const runs = `UPDATE SCHEMA.task SET state = 'running', session = 99, claim = 1, fence = 1, limited = type,
		lease_until = now() + interval '1 hour' WHERE id = $1`
	const kept = `INSERT INTO SCHEMA.limit_place (task_id, fence, name, tenant, until) SELECT id, 7, type, tenant, now() + interval '1 hour'
		FROM SCHEMA.task WHERE id = $1`
	const spent = `INSERT INTO SCHEMA.tenant_bucket (name, tenant, tokens, counted_at, full_at)
		SELECT type, tenant, 0, now(), now() + interval '1 hour' FROM SCHEMA.task WHERE id = $1`
	for name, of := range map[string]struct {
		each store.TenantLimit
		took string
	}{
		"running":  {store.TenantLimit{Most: 1}, runs},
		"its end":  {store.TenantLimit{Most: 1}, kept},
		"a token":  {store.TenantLimit{Rate: 0.001, Burst: 1}, spent},
		"as aside": {store.TenantLimit{Most: 1, Rate: 0.001, Burst: 1}, runs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			w := wantOf(5)
			a := store.EnqueueRequest{Type: w.Type, Tenant: "a"}
			ids := h.Insert(t, a, a, a, store.EnqueueRequest{Type: w.Type, Tenant: "b"})
			session, err := h.Join(t.Context(), eachOf(of.each))
			require.NoError(t, err)
			h.exec(t, `ALTER FUNCTION SCHEMA.limit_rooms SET lock_timeout = '20s'`)
			claim := func(number int64) []task.Task {
				rows, err := h.Claim(t.Context(), store.Claim{Session: session, Number: number, Wants: []store.Want{w}})
				if err != nil {
					t.Errorf("claim: %v", err)
				}
				return rows
			}
			conn := pgtest.Connect(t)
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			_, err = tx.Exec(t.Context(), h.q(`SELECT FROM SCHEMA.type_limit FOR UPDATE`))
			require.NoError(t, err)
			claimed := make(chan []task.Task, 1)
			go func() { claimed <- claim(1) }()
			watch := pgtest.Connect(t)
			require.Eventually(t, func() bool {
				var waits bool
				const blocked = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid)))`
				return watch.QueryRow(t.Context(), blocked, conn.PgConn().PID()).Scan(&waits) == nil && waits
			}, 10*time.Second, time.Millisecond)
			_, err = tx.Exec(t.Context(), h.q(of.took), pgx.QueryExecModeExec, int64(ids[0]))
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			got := <-claimed
			require.Len(t, got, 1)
			require.Equal(t, ids[3], got[0].ID, "the other tenant has room")
		})
	}
}

// TestAHeldSnapshotAndTenantsWithoutRoom counts the pages that a claim touches where nearly all tenants have reached their limit, and dead rows
// cannot be removed.
func TestAHeldSnapshotAndTenantsWithoutRoom(t *testing.T) {
	t.Parallel()
	const tenants, each, free = 1000, 4, 10
	buffers := func(full bool) int64 {
		h := newHarness(t)
		h.exec(t, fmt.Sprintf(`INSERT INTO SCHEMA.task (type, tenant) SELECT 'a', 't' || lpad((n %% %d)::text, 4, '0')
			FROM generate_series(1, %d) AS n`, tenants, tenants*each))
		session, err := h.Join(t.Context(), eachOf(store.TenantLimit{Most: 2}))
		require.NoError(t, err)
		tx, err := pgtest.Connect(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT pg_current_xact_id()`)
		require.NoError(t, err)
		if full {
			h.exec(t, fmt.Sprintf(`UPDATE SCHEMA.task SET state = 'running', session = 99, claim = 1, fence = 1, limited = type,
				lease_until = now() + interval '1 hour' WHERE id <= %d AND tenant < 't%04d'`, 2*tenants, tenants-free))
		}
		h.exec(t, `ANALYZE SCHEMA.task`)
		var number int64
		claim := func() int {
			number++
			var cut bool
			rows, err := h.Claim(t.Context(), store.Claim{Session: session, Number: number, Wants: []store.Want{wantOf(free)}, Cut: &cut})
			require.NoError(t, err)
			var ends []store.Settlement
			for i := range rows {
				ends = append(ends, store.Settlement{
					ID: rows[i].ID, Fence: rows[i].Fence, RanFence: rows[i].Fence, Phase: task.Run, Attempt: 1,
					Next: task.Transition{State: task.StateRetryPending}, Outcome: task.Outcome{Verdict: task.Failed},
				})
			}
			_, err = h.Settle(t.Context(), session, ends)
			require.NoError(t, err)
			return len(rows)
		}
		for done := 0; done < 10*free; {
			done += claim()
		}
		number++
		rows, n, err := h.BuffersOfLimitedTurns(t.Context(), store.Claim{Session: session, Number: number, Wants: []store.Want{wantOf(free)}})
		require.NoError(t, err)
		require.NotZero(t, rows)
		require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context())))
		return n / int64(rows)
	}
	none, nearly := buffers(false), buffers(true)
	t.Logf("buffers for each row: %d where no tenant has reached its limit, %d where nearly all have", none, nearly)
	require.Less(t, nearly, 2*none)
}
