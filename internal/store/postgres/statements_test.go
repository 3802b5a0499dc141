package postgres

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRowsHaveTheSameColumns: taskRow reads the rows of the queries that include task_columns, and of two that list the columns without documents.
func TestRowsHaveTheSameColumns(t *testing.T) {
	t.Parallel()
	s, err := newStatements("x")
	require.NoError(t, err)
	fit := regexp.MustCompile(`CASE WHEN pg_column_size\((t\.\w+)\) > 32768 THEN "x"\.fit\((t\.\w+)\) ELSE (t\.\w+) END`)
	columns := func(name string) string {
		text := strings.Join(strings.Fields(s.byName()[name].Text), " ")
		list := regexp.MustCompile(`(?:RETURNING|SELECT) (t\.id, t\.type, .* t\.cause)`).FindStringSubmatch(text)
		require.Len(t, list, 2, name)
		for _, m := range fit.FindAllStringSubmatch(list[1], -1) {
			require.Equal(t, []string{m[1], m[1]}, m[2:], name)
		}
		return fit.ReplaceAllString(list[1], "$1")
	}
	want := columns("claim")
	for _, document := range []string{"payload", "result", "labels", "checkpoint", "rollback_payload"} {
		require.Contains(t, want, " t."+document+",")
		want = strings.Replace(want, " t."+document+",", " NULL::jsonb,", 1)
	}
	require.Equal(t, want, columns("sweep"))
	require.Equal(t, want, columns("adopt"))
}
