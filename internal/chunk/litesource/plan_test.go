package litesource_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/chunk/litesource"
)

// TestALookReadsByKeyOnly: no plan sorts, and each step on the table begins at a key.
func TestALookReadsByKeyOnly(t *testing.T) {
	for _, table := range []string{
		"CREATE TABLE tab (k INTEGER PRIMARY KEY, status INTEGER); CREATE INDEX s ON tab (status)",
		"CREATE TABLE tab (k BIGINT NOT NULL, status INTEGER); CREATE INDEX i ON tab (k); CREATE INDEX s ON tab (status)",
		"CREATE TABLE tab (k BIGINT NOT NULL, status INTEGER); CREATE INDEX i ON tab (k); CREATE INDEX s ON tab (status, k)",
	} {
		path, _ := file(t, table+`; INSERT INTO tab WITH RECURSIVE g (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 10000)
			SELECT i, i % 10 FROM g; ANALYZE`)
		for _, where := range []string{"", "status = 0"} {
			s := open(t, path, func(o *litesource.Options) { o.Where = where })
			steps, err := s.Plans(t.Context(), chunk.Query{After: new(chunk.Key("5")), Limit: new(chunk.Key("9000")), Rows: 10, Most: 5})
			require.NoError(t, err)
			looks := 0
			for _, step := range steps {
				require.NotContains(t, step, "TEMP B-TREE", "%s %s: %q", table, where, steps)
				require.NotContains(t, step, "SCAN tab", "%s %s: %q", table, where, steps)
				if strings.HasPrefix(step, "SEARCH tab") {
					looks++
					require.True(t, strings.Contains(step, "k>? AND k<?") || strings.Contains(step, "rowid>? AND rowid<?"), "%s", step)
				}
			}
			require.Equal(t, 3, looks, "%q", steps)
		}
	}
}
