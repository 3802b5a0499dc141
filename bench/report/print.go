package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// first are the measures that stand first, with their spread.
func first() []string {
	return []string{
		"rate", "p50_ms", "p99_ms", "agent_cpu_percent", "statements_per_second", "claim_us_per_row", "inserts_per_second",
		"others_cpu_percent",
	}
}

// tables are everything that was measured, a table for each scenario.
func (b *Book) tables(shown func(measure string) bool) []table {
	var all []table
	for _, scenario := range b.Scenarios() {
		contenders := b.Contenders(scenario)
		t := table{append([]string{scenario}, contenders...)}
		measures := slices.DeleteFunc(b.Measures(scenario), func(m string) bool { return !shown(m) || b.idle(scenario, m) })
		slices.SortStableFunc(measures, func(x, y string) int { return rank(x) - rank(y) })
		for _, m := range measures {
			line := []string{m}
			for _, c := range contenders {
				line = append(line, cell(b.Values(Key{scenario, c, m}), rank(m) < len(first())))
			}
			t = append(t, line)
		}
		all = append(all, t)
	}
	return all
}

// idle reports whether a measure that is not among the first is zero for all contenders.
func (b *Book) idle(scenario, measure string) bool {
	if rank(measure) < len(first()) {
		return false
	}
	for _, c := range b.Contenders(scenario) {
		if slices.ContainsFunc(b.Values(Key{scenario, c, measure}), func(v float64) bool { return v != 0 }) {
			return false
		}
	}
	return true
}

// String writes everything that was measured.
func (b *Book) String() string {
	var text strings.Builder
	for _, t := range b.tables(func(string) bool { return true }) {
		text.WriteString("\n" + t.String())
	}
	return text.String()
}

func rank(measure string) int {
	if i := slices.Index(first(), measure); i >= 0 {
		return i
	}
	return len(first())
}

// cell is a median, with the least and the most beside it.
func cell(values []float64, spread bool) string {
	if len(values) == 0 {
		return "–"
	}
	text := Number(median(values))
	if spread && len(values) > 1 {
		text += " (" + Number(slices.Min(values)) + "–" + Number(slices.Max(values)) + ")"
	}
	return text
}

// Number writes three digits, more before the point.
func Number(v float64) string {
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case abs >= 1e8:
		return fmt.Sprintf("%.0fM", v/1e6)
	case abs >= 100:
		return fmt.Sprintf("%.0f", v)
	case abs >= 10:
		return fmt.Sprintf("%.1f", v)
	case abs >= 1:
		return fmt.Sprintf("%.2f", v)
	case abs >= 0.001 || v == 0:
		return fmt.Sprintf("%.3f", v)
	default:
		return fmt.Sprintf("%.2g", v)
	}
}
