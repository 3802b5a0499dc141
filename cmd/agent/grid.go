package main

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// grid is a table without lines: columns and two spaces. Where a terminal shows it, it is no wider than that.
type grid struct {
	header table.Row // nil: none
	rows   []table.Row
}

func newTable(header table.Row) *grid { return &grid{header: header} }

// AppendRow adds a row.
func (g *grid) AppendRow(row table.Row) { g.rows = append(g.rows, row) }

// writeTable writes a table: on a terminal as wide as that at the most, elsewhere with every column, as wide as it is.
func writeTable(w io.Writer, g *grid) error {
	if f, ok := w.(*folder); ok && g.header != nil && !g.folded() {
		return writeColumns(f.out, g.columns(), f.width)
	}
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = 0
	t.SetStyle(style)
	if g.header != nil {
		t.AppendHeader(g.header)
	}
	t.AppendRows(g.rows)
	var out bytes.Buffer
	for line := range bytes.Lines([]byte(t.Render())) {
		out.Write(bytes.TrimRight(line, " \n"))
		out.WriteByte('\n')
	}
	_, err := w.Write(out.Bytes())
	return err
}

// folded reports whether cells have several lines, so that somebody has seen to its width.
func (g *grid) folded() bool {
	for _, row := range g.rows {
		for _, cell := range row {
			if strings.Contains(fmt.Sprint(cell), "\n") {
				return true
			}
		}
	}
	return false
}

// columns are the table's, each with what its name says of how it gives way.
func (g *grid) columns() []*column {
	list := make([]*column, len(g.header))
	for n, name := range g.header {
		c := &column{name: fmt.Sprint(name), right: true}
		c.least, c.drop, c.wrap = givesWay(c.name)
		for _, row := range g.rows {
			cell := ""
			if n < len(row) {
				cell = fmt.Sprint(row[n])
				c.right = c.right && isNumber(row[n])
			}
			c.cells = append(c.cells, cell)
		}
		list[n] = c
	}
	return list
}

// isNumber reports whether a cell is a number, or nothing.
func isNumber(cell any) bool {
	v := reflect.ValueOf(cell)
	return cell == "" || v.IsValid() && (v.CanInt() || v.CanUint() || v.CanFloat())
}

// givesWay says how columns of a name give way on a narrow terminal. To which width they may be cut; 0: they are not. In which order they are
// left out where cutting is not enough; 0: never. And whether what is cut goes on in further lines, which is for last columns.
func givesWay(column string) (least, drop int, wrap bool) {
	const short, medium, long, name, table, agent = 8, 12, 24, 16, 5, 5
	switch column {
	case "NAME", "TYPE":
		return name, 0, false
	case "TASK", "SEQUENCE", "REGION":
		return medium, 0, false
	case "TABLE":
		return medium, table, false
	case "AGENT":
		return medium, agent, false
	case "FIRES", "FROM", "THROUGH", "AFTER":
		return short, 0, false
	case "ERROR", "FAILURE", "NOTE", "REASON", "STAYS BECAUSE", "TYPES", "PROVEN":
		return long, 0, true
	case "BY", "KEY", "CONFIG", "AS":
		return short, 1, false
	}
	for order, names := range [][]string{
		{"SIZES", "PLANNED", "VERSION", "LAST TASK", "FIRST LOADED", "DECLARED"},
		{"OF", "BEGAN", "LAST SLOT", "DONE/MIN", "SIZE", "STARTED", "PASSES"},
		{"RANGES", "CHUNKS", "BATCH", "BECAME", "CREATED"},
		{"ROWS/S", "TIME LEFT", "MISSED", "LAST LOADED", "SINCE"},
		{"LAST SEEN", "TOOK", "PASS", "DONE ROWS"},
	} {
		if slices.Contains(names, column) {
			return 0, order + 2, false
		}
	}
	return 0, 0, false
}
