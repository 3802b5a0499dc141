package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/leasehold/leasehold/internal/ops"
)

// column is a column of the list of tasks.
type column struct {
	name  string
	cells []string
	least int // width to which it may be cut where the terminal is narrow; 0: it is not cut
	cut   int // width to which it is cut; 0: it is not
	drop  int // where cutting is not enough, columns go in this order; 0: it stays

	wrap  bool // of the last column: what is cut goes on in further lines
	right bool // its cells are numbers
}

const columnGap = 2

// taskColumns are the list's columns, in words: JSON has the values.
func (a *app) taskColumns(infos []ops.Task, now time.Time) []*column {
	id, typ, state := &column{name: "ID", right: true}, &column{name: "TYPE", least: 12}, &column{name: "STATE"}
	attempt, age := &column{name: "ATTEMPT", drop: 4}, &column{name: "AGE", drop: 3}
	when, key := &column{name: "WHEN", drop: 5}, &column{name: "KEY", least: 8, drop: 1}
	batch, detail := &column{name: "BATCH", drop: 2}, &column{name: "PROGRESS OR ERROR", least: 24}
	const most, mostDetail = 60, 200
	for n := range infos {
		i := &infos[n]
		batchID := ""
		if i.Batch != 0 {
			batchID = strconv.FormatInt(int64(i.Batch), 10)
		}
		for c, cell := range map[*column]string{
			id: strconv.FormatInt(int64(i.ID), 10), typ: ops.OneLine(i.Type, most), state: a.state(i.State),
			attempt: ops.Attempts(i), age: ops.Age(now.Sub(i.CreatedAt)), when: ops.When(i, now), key: ops.OneLine(i.Key, most),
			batch: batchID, detail: ops.OneLine(ops.Detail(i), mostDetail),
		} {
			c.cells = append(c.cells, cell)
		}
	}
	return []*column{id, typ, state, attempt, age, when, key, batch, detail}
}

// writeColumns writes a table of at most width columns of characters; 0: as wide as it is. Where there is a width, a column
// in which nothing stands is left out.
func writeColumns(w io.Writer, columns []*column, width int) error {
	if width > 0 {
		columns = fit(columns, width)
	}
	var out bytes.Buffer
	for row := -1; row < len(columns[0].cells); row++ {
		var line strings.Builder
		for n, c := range columns {
			cell := c.name
			if row >= 0 {
				cell = c.cells[row]
			}
			wide := c.wide()
			if c.wrap && n == len(columns)-1 && text.StringWidthWithoutEscSequences(cell) > wide {
				hang := strings.Repeat(" ", text.StringWidthWithoutEscSequences(line.String()))
				cell = strings.ReplaceAll(foldAt(cell, wide, ""), "\n", "\n"+hang)
				line.WriteString(cell)
				break
			}
			cell = text.Snip(cell, wide, "…")
			pad := strings.Repeat(" ", max(wide-text.StringWidthWithoutEscSequences(cell), 0))
			if c.right && row >= 0 {
				cell, pad = pad+cell, ""
			}
			line.WriteString(cell + pad)
			if n < len(columns)-1 {
				line.WriteString(strings.Repeat(" ", columnGap))
			}
		}
		for s := range strings.SplitSeq(strings.TrimRight(line.String(), " "), "\n") {
			if width > 0 {
				s = text.Snip(s, width, "…")
			}
			fmt.Fprintln(&out, s)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// wide is how many columns of the terminal the column takes.
func (c *column) wide() int {
	wide := text.StringWidthWithoutEscSequences(c.name)
	for _, cell := range c.cells {
		wide = max(wide, text.StringWidthWithoutEscSequences(cell))
	}
	if c.cut > 0 {
		return min(wide, c.cut)
	}
	return wide
}

// fit cuts and leaves out columns until the rest is no wider than width: first those that may be cut, the last one first,
// then whole columns in their order.
func fit(columns []*column, width int) []*column {
	var kept []*column
	for _, c := range columns {
		if len(c.cells) == 0 || strings.Join(c.cells, "") != "" {
			kept = append(kept, c)
		}
	}
	over := func() int {
		total := -columnGap
		for _, c := range kept {
			total += c.wide() + columnGap
		}
		return total - width
	}
	cut := func() {
		for _, c := range kept {
			c.cut = 0
		}
		for _, c := range slices.Backward(kept) {
			if c.least > 0 && over() > 0 {
				c.cut = max(c.wide()-over(), min(c.least, c.wide()))
			}
		}
	}
	cut()
	const drops = 6
	for drop := 1; drop <= drops && over() > 0; drop++ {
		kept = slices.DeleteFunc(kept, func(c *column) bool { return c.drop == drop })
		cut() // there is more room now
	}
	return kept
}
