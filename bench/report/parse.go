package report

import (
	"regexp"
	"strconv"
	"strings"
)

// gap is what stands between two columns of a table; names have single spaces in them.
var gap = regexp.MustCompile(`\s{2,}`)

// Parse reads back the tables of a Book that was printed, with the medians for values. What else stands in the text is
// passed over. So the benchmarks of another version of this repository can be asked, whatever they are like inside.
func Parse(text string) *Book {
	b := NewBook()
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		head := gap.Split(strings.TrimSpace(lines[0]), -1)
		if len(head) < 2 {
			continue
		}
		for _, line := range lines[1:] {
			cells := gap.Split(strings.TrimSpace(line), -1)
			if len(cells) != len(head) {
				continue
			}
			for i, contender := range head[1:] {
				if v, ok := parseCell(cells[i+1]); ok {
					b.Add(head[0], contender, map[string]float64{cells[0]: v})
				}
			}
		}
	}
	return b
}

// parseCell reads what cell writes.
func parseCell(text string) (v float64, ok bool) {
	number, _, _ := strings.Cut(text, " ")
	number, millions := strings.CutSuffix(number, "M")
	v, err := strconv.ParseFloat(number, 64)
	if millions {
		v *= 1e6
	}
	return v, err == nil
}
