package sqlite

import (
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// listOf returns a statement with one row of VALUES as one for n rows. All rows share the first arguments, which are written
// once; the other values of each row follow, row by row. Without numbers: SQLite looks for the name of each that has one.
func listOf(q *sqltext.Query, shared, n int) string {
	head, tail, _ := strings.Cut(q.Text, "VALUES (")
	_, tail, _ = strings.Cut(tail, ")")
	var row strings.Builder
	row.WriteByte('(')
	for i := range shared {
		fmt.Fprintf(&row, "?%d, ", i+1)
	}
	row.WriteString(strings.Repeat(", ?", len(q.Names)-shared)[len(", "):] + ")")
	return head + "VALUES " + strings.Repeat(row.String()+", ", n-1) + row.String() + tail
}
