package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const fillChunks = `
INSERT INTO SCHEMA.chunk_plan (name, task, table_name, key_name, size_start, ahead, declared, pass, open_pass, open_step)
    VALUES ('p', 'work', 'event', 'id', 100, 128, 0, 1, 1, 19900);
INSERT INTO SCHEMA.chunk_range (task_id, plan, pass, planned, step, item, rows, failures, state, through_key)
    SELECT n, 'p', 1, 1, n, 0, 100, 0, CASE WHEN n > 19900 THEN 'open' WHEN n % 1000 = 0 THEN 'failed' ELSE 'over' END, n::text
    FROM generate_series(1, 20000) AS n;
`

// TestPlanningReadsFromTheLowWaterMark: of the index of open chunks, which finished ones fill until it is vacuumed, planning reads what
// lies behind the low-water mark, and the index of what is before it is small.
func TestPlanningReadsFromTheLowWaterMark(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	h.exec(t, fillChunks)
	statements, err := h.AllStatements(h.Now())
	require.NoError(t, err)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.chunk_plan; ANALYZE SCHEMA.chunk_range`)
		}
		for how, set := range settings {
			conn := planner(t, set)
			for name, left := range map[string]bool{"look_plan": true, "chunk_obstacles": true, "finished_chunks": true, "move_plan": false} {
				plan := explain(t, conn, statements[name])
				require.Regexp(t, `chunk_range_open\b[^\n]*\n\s+Index Cond: [^\n]*ROW\((\w+\.)?pass, (\w+\.)?step\) >= ROW\(`, plan,
					"%s, %s, analysed %v", name, how, analysed)
				require.NotContains(t, plan, "Seq Scan on chunk_range", "%s, %s, analysed %v", name, how, analysed)
				if left {
					require.Contains(t, plan, "chunk_range_left", "%s, %s, analysed %v", name, how, analysed)
				}
			}
		}
	}
}
