package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/test/storetest"
)

func (h *harness) AddChunkPlan(t testing.TB, p store.ChunkSpec) {
	t.Helper()
	conn, end := h.connections.connection(t, pgtest.URL(t))
	defer end()
	_, err := conn.Exec(t.Context(), h.q(`INSERT INTO SCHEMA.chunk_plan
		(name, task, table_name, key_name, size_start, size_min, size_max, target_us, ahead, follow_us, declared)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0)`), p.Name, p.Task, p.Table, p.Key, p.Size.Start, p.Size.Min, p.Size.Max,
		p.Size.Target.Microseconds(), p.Ahead, p.Follow.Microseconds())
	require.NoError(t, err)
}

func (h *harness) PauseChunkPlan(t testing.TB, name string) {
	t.Helper()
	conn, end := h.connections.connection(t, pgtest.URL(t))
	defer end()
	_, err := conn.Exec(t.Context(), h.q(`UPDATE SCHEMA.chunk_plan SET paused_at = now(), version = version + 1 WHERE name = $1`), name)
	require.NoError(t, err)
}

func (h *harness) LockChunkPlan(t testing.TB, name string) (release func()) {
	t.Helper()
	tx, err := pgtest.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(`SELECT SCHEMA.pause_chunks($1)`), name)
	require.NoError(t, err)
	return sync.OnceFunc(func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) })
}

func (h *harness) ChunkPasses(t testing.TB, name string) []storetest.ChunkPass {
	t.Helper()
	conn, end := h.connections.connection(t, pgtest.URL(t))
	defer end()
	rows, err := conn.Query(t.Context(), h.q(`SELECT pass, whole, from_key, through_key, ranges, chunks, rows, coalesce(batch_id, 0), sealed_at
		FROM SCHEMA.chunk_pass WHERE plan = $1 ORDER BY pass`), name)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p storetest.ChunkPass, err error) {
		var sealed *time.Time
		if err = row.Scan(&p.Pass, &p.Full, &p.From, &p.Through, &p.Ranges, &p.Chunks, &p.Rows, (*int64)(&p.Batch), &sealed); sealed != nil {
			p.Sealed = sealed.UTC()
		}
		return p, err
	})
	require.NoError(t, err)
	return list
}
