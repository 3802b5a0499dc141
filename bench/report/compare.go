package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Least is how much of what an earlier tree did this one has to do.
const Least = 0.95

// compared are the measures that a later tree must not fall behind in, and which way is better.
func compared() map[string]bool {
	const more, less = true, false
	return map[string]bool{
		"rate": more, "inserts_per_second": more, "p50_ms": less, "statements_per_second": less, allCPU: less,
	}
}

// allCPU is the processor time that a row takes of the agent, its children and the server. Where rates depend on what else the
// machine and its disk do, it shows whether the work has grown.
const allCPU = "cpu_us_per_row"

// withCPU returns a copy of the book that has allCPU, too, in each scenario that has a rate.
func (b *Book) withCPU() *Book {
	sums := NewBook()
	sums.Merge(b)
	for _, k := range b.order {
		for i := range b.values[k] {
			sum := 0.0
			for _, of := range []string{"agent", "child", "server"} {
				if each := b.values[Key{k.Scenario, k.Contender, of + "_" + allCPU}]; i < len(each) {
					sum += each[i]
				}
			}
			if k.Measure == "rate" && sum > 0 {
				sums.Add(k.Scenario, k.Contender, map[string]float64{allCPU: sum})
			}
		}
	}
	return sums
}

// Compare writes how this tree does beside an earlier one, and reports whether nothing fell below Least. A ratio above 1
// is better, whatever is measured. Ratios are taken round by round; what counts is their median.
func Compare(now, before *Book) (text string, held bool) {
	now, before = now.withCPU(), before.withCPU()
	better := compared()
	t := table{{"scenario", "of", "measure", "before", "now", "ratio (spread)", ""}}
	held = true
	for _, k := range now.order {
		more, counts := better[k.Measure]
		if !counts || len(before.values[k]) == 0 {
			continue
		}
		over, under := now, before
		if !more {
			over, under = before, now
		}
		ratios := ratios(over.values[k], under.values[k])
		verdict := ""
		if m := median(ratios); math.IsNaN(m) || m < Least {
			verdict, held = fmt.Sprintf("BELOW %.2f", Least), false
		}
		t = append(t, []string{
			k.Scenario, k.Contender, k.Measure, cell(before.values[k], false), cell(now.values[k], false), cell(ratios, true), verdict,
		})
	}
	slices.SortStableFunc(t[1:], func(a, b []string) int { return cmp.Compare(place(now, a[0]), place(now, b[0])) })
	return t.String(), held
}

func place(b *Book, scenario string) int { return slices.Index(b.Scenarios(), scenario) }
