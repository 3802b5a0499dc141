package postgres_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/test/storetest"
)

func BenchmarkActivity(b *testing.B) { storetest.BenchActivity(b, newHarness(b)) }

// TestActivityIsReadByItsTime: a reading of an hour does not go through two days.
func TestActivityIsReadByItsTime(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	zeros := strings.Repeat(", 0", len(store.ActivityCounts{}.Outcomes)+len(store.ActivityCounts{}.Latency))
	h.exec(t, `INSERT INTO SCHEMA.activity
		SELECT now() - n * s * interval '1 minute', 1, 1, 1, s, 'type' || k`+zeros+`
		FROM unnest('{1,15}'::integer[]) AS s, generate_series(0, 192) AS n, generate_series(1, 100) AS k`)
	statements, err := h.AllStatements(h.Now())
	require.NoError(t, err)
	for _, analysed := range []bool{false, true} {
		if analysed {
			h.exec(t, `ANALYZE SCHEMA.activity`)
		}
		conn := planner(t, settings["ours"])
		for name, scans := range map[string]int{"activity": 1, "forget_activity": 2} {
			plan := explain(t, conn, statements[name])
			bounded := regexp.MustCompile(`Index Cond: .*step = .*at (<|>|<=|>=) `).FindAllString(plan, -1)
			require.Len(t, bounded, scans, "%s, analysed %v:\n%s", name, analysed, plan)
			require.NotContains(t, plan, "Seq Scan", name)
		}
	}
}
