package report

import (
	"strings"
	"unicode/utf8"
)

// table is lines of cells, written in columns.
type table [][]string

// String writes it, with two spaces between columns.
func (t table) String() string {
	var widths []int
	for _, line := range t {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range t {
		for i, cell := range line {
			b.WriteString(cell)
			if i < len(line)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// markdown writes it as a table of Markdown.
func (t table) markdown() string {
	var b strings.Builder
	for i, line := range t {
		b.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("| --- ", len(line)) + "|\n")
		}
	}
	return b.String()
}
