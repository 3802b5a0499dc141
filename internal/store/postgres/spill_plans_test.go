package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestALookForRowsThatSpillReadsLittle: neither the overdue rows of the own region nor those that have not waited long enough are gone through.
func TestALookForRowsThatSpillReadsLittle(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.exec(t, `INSERT INTO SCHEMA.task (type, region, run_at) SELECT 'a', 'sg', now() - interval '1 hour' FROM generate_series(1, 30000);
		INSERT INTO SCHEMA.task (type, region) SELECT 'a', 'eu' FROM generate_series(1, 30000);
		INSERT INTO SCHEMA.task (type, region, run_at) SELECT 'a', 'us', now() - interval '1 hour' FROM generate_series(1, 5);
		INSERT INTO SCHEMA.task (type) SELECT 'a' FROM generate_series(1, 30000)`)
	text := h.Statements()["spill"]
	require.NotEmpty(t, text)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.task`)
		}
		for how, set := range settings {
			conn := planner(t, set)
			plan := explain(t, conn, text)
			require.Regexp(t, `(?s)task_spill.*task_spill`, plan, "%s, analysed %v", how, analysed)
			require.NotContains(t, plan, "Bitmap Index Scan on task_spill", "%s, analysed %v: it would be read whole and sorted", how, analysed)
		}
	}
	const most = 400
	types, waits := []string{"a", "b"}, []int64{time.Minute.Microseconds(), time.Minute.Microseconds()}
	require.Less(t, pages(t, pgtest.Connect(t), text, most-1, types, waits, 10_000, int64(1000), "sg"), most)
	require.EqualValues(t, 60005, h.number(t, `SELECT count(region) FROM SCHEMA.task`))
}
