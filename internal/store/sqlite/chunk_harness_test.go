package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

func (h *harness) AddChunkPlan(t testing.TB, p store.ChunkSpec) {
	t.Helper()
	require.NoError(t, h.exec(t, `INSERT INTO chunk_plan
		(name, task, table_name, key_name, size_start, size_min, size_max, target_us, ahead, follow_us, declared)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`, p.Name, p.Task, p.Table, p.Key, p.Size.Start, p.Size.Min, p.Size.Max,
		p.Size.Target.Microseconds(), p.Ahead, p.Follow.Microseconds()))
}

func (h *harness) PauseChunkPlan(t testing.TB, name string) {
	t.Helper()
	require.NoError(t, h.exec(t, `UPDATE chunk_plan SET paused_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), version = version + 1
		WHERE name = ?`, name))
}

func (h *harness) LockChunkPlan(testing.TB, string) func() { return nil }

func (h *harness) ChunkPasses(t testing.TB, name string) (list []storetest.ChunkPass) {
	t.Helper()
	rows, err := h.app.QueryContext(t.Context(), `SELECT pass, whole, from_key, through_key, ranges, chunks, rows, batch_id, sealed_at
		FROM chunk_pass WHERE plan = ? ORDER BY pass`, name)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var p storetest.ChunkPass
		require.NoError(t, rows.Scan(&p.Pass, truthOf{&p.Full}, keyOf{&p.From}, keyOf{&p.Through}, &p.Ranges, &p.Chunks, &p.Rows,
			numberOf[task.BatchID]{&p.Batch}, timeOf{&p.Sealed}))
		list = append(list, p)
	}
	require.NoError(t, rows.Err())
	return list
}
