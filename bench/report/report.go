// Package report keeps what was measured and prints it: medians, spread, ratios, and which targets were reached.
package report

import (
	"maps"
	"math"
	"slices"
)

// Book holds values by scenario, contender and measure, one for each round.
type Book struct {
	values map[Key][]float64
	order  []Key
}

// Key names a measure: "noop", "river", "rate".
type Key struct{ Scenario, Contender, Measure string }

// NewBook makes an empty one.
func NewBook() *Book { return &Book{values: make(map[Key][]float64)} }

// Add adds what a round gave.
func (b *Book) Add(scenario, contender string, measures map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(measures)) {
		k := Key{scenario, contender, name}
		if _, known := b.values[k]; !known {
			b.order = append(b.order, k)
		}
		b.values[k] = append(b.values[k], measures[name])
	}
}

// Values are those of all rounds.
func (b *Book) Values(k Key) []float64 { return b.values[k] }

// Median is that of all rounds; NaN where there is none.
func (b *Book) Median(k Key) float64 { return median(b.values[k]) }

// Ratios are those of two measures, round by round: what changed on the machine from round to round cancels out.
func (b *Book) Ratios(over, under Key) []float64 { return ratios(b.values[over], b.values[under]) }

func ratios(x, y []float64) []float64 {
	all := make([]float64, min(len(x), len(y)))
	for i := range all {
		all[i] = x[i] / y[i]
	}
	return all
}

// Merge adds all that another book holds.
func (b *Book) Merge(other *Book) {
	for _, k := range other.order {
		for _, v := range other.values[k] {
			b.Add(k.Scenario, k.Contender, map[string]float64{k.Measure: v})
		}
	}
}

// Scenarios lists them in the order in which they were added.
func (b *Book) Scenarios() []string {
	var all []string
	for _, k := range b.order {
		if !slices.Contains(all, k.Scenario) {
			all = append(all, k.Scenario)
		}
	}
	return all
}

// Contenders lists those of a scenario, in the order in which they were added.
func (b *Book) Contenders(scenario string) []string {
	var all []string
	for _, k := range b.order {
		if k.Scenario == scenario && !slices.Contains(all, k.Contender) {
			all = append(all, k.Contender)
		}
	}
	return all
}

// Measures lists those of a scenario, of any contender.
func (b *Book) Measures(scenario string) []string {
	var all []string
	for _, k := range b.order {
		if k.Scenario == scenario && !slices.Contains(all, k.Measure) {
			all = append(all, k.Measure)
		}
	}
	slices.Sort(all)
	return all
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}
