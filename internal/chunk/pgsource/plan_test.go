package pgsource_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/chunk/pgsource"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// node is a node of a plan.
type node struct {
	Type    string `json:"Node Type"`
	Cond    string `json:"Index Cond"`
	Removed int    `json:"Rows Removed by Filter"`
	Hit     int    `json:"Shared Hit Blocks"`
	Read    int    `json:"Shared Read Blocks"`
	Plans   []node `json:"Plans"`
}

// allowed are the nodes that read no more than they pass on.
var allowed = []string{
	"Limit", "Index Scan", "Index Only Scan", "Result", "CTE Scan", "Recursive Union", "WorkTable Scan", "Subquery Scan",
}

// walk requires that of each node: nothing sorts, counts or reads a table as a whole, and each scan begins at a key.
func (n *node) walk(t *testing.T, name string, narrowed bool) {
	t.Helper()
	require.Contains(t, allowed, n.Type, name)
	if strings.HasPrefix(n.Type, "Index") {
		require.Contains(t, n.Cond, "(k > ", name)
		if !narrowed {
			require.Zero(t, n.Removed, name)
		}
	}
	for i := range n.Plans {
		n.Plans[i].walk(t, name, narrowed)
	}
}

// TestALookReadsByKeyOnly, and as many blocks at the end of a large table as at its begin.
func TestALookReadsByKeyOnly(t *testing.T) {
	const rows = 60_000
	name := schema(t, "k bigint PRIMARY KEY, status integer, note text")
	pgtest.Exec(t, `INSERT INTO `+name+`.tab SELECT g * 3, CASE WHEN g % 10 = 0 THEN 0 ELSE 1 END, repeat('x', 50) FROM generate_series(1, 60000) g;
		CREATE INDEX ON `+name+`.tab (status)`)
	pgtest.Exec(t, `VACUUM ANALYZE `+name+`.tab`)
	as := reader(t, name)
	for _, where := range []string{"", "status = 0", "status IN (0, 7)"} {
		s := open(t, as, name, func(o *pgsource.Options) { o.Where = where })
		var blocks []int
		for _, after := range []int{1, rows * 3 / 2, rows*3 - 40_000} {
			begin := key(after)
			limit := key(rows * 4)
			for _, q := range []chunk.Query{{After: &begin, Rows: 100, Most: 10}, {After: &begin, Limit: &limit, Rows: 100, Most: 10}} {
				plans, err := s.Plans(t.Context(), q, nil)
				require.NoError(t, err)
				for what, text := range plans {
					var p []struct {
						Plan node `json:"Plan"`
					}
					require.NoError(t, json.Unmarshal(text, &p))
					p[0].Plan.walk(t, where+": "+what, where != "")
					if what == "cut" {
						blocks = append(blocks, p[0].Plan.Hit+p[0].Plan.Read)
					}
				}
			}
		}
		require.LessOrEqual(t, float64(slices.Max(blocks)), 1.2*float64(slices.Min(blocks)), "%s: %v", where, blocks)
	}
}
