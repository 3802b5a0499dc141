package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// Target is what a measure, or the ratio of two, has to be.
type Target struct {
	Name  string   `json:"name"`
	Of    string   `json:"of"`              // scenario/contender/measure
	Or    string   `json:"or,omitempty"`    // the same: counts in its place, round by round, where it is higher or the only one
	Over  string   `json:"over,omitempty"`  // divided by it, round by round
	Least *float64 `json:"least,omitempty"` // the median has to be so much
	Most  *float64 `json:"most,omitempty"`  // and no more than this
}

// ReadTargets reads a file of them.
func ReadTargets(path string) ([]Target, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var targets []Target
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&targets); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for _, t := range targets {
		for _, text := range []string{t.Of, t.Or, t.Over} {
			if _, err := key(text); err != nil && (text != "" || text == t.Of) {
				return nil, fmt.Errorf("read %s: %s: %w", path, t.Name, err)
			}
		}
		if t.Least == nil && t.Most == nil {
			return nil, fmt.Errorf("read %s: %s: neither least nor most", path, t.Name)
		}
	}
	return targets, nil
}

func key(text string) (Key, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return Key{}, fmt.Errorf("%q is not scenario/contender/measure", text)
	}
	return Key{parts[0], parts[1], parts[2]}, nil
}

// values are the target's, one for each round.
func (t Target) values(b *Book) []float64 {
	of, _ := key(t.Of) // ReadTargets has checked all of them
	values := b.Values(of)
	if t.Or != "" {
		other, _ := key(t.Or)
		values = higher(values, b.Values(other))
	}
	if t.Over == "" {
		return values
	}
	over, _ := key(t.Over)
	return ratios(values, b.Values(over))
}

// higher returns the higher value of each round; those of one list where the other is empty.
func higher(x, y []float64) []float64 {
	if len(x) == 0 || len(y) == 0 {
		return append(x, y...)
	}
	all := make([]float64, min(len(x), len(y)))
	for i := range all {
		all[i] = max(x[i], y[i])
	}
	return all
}

// wanted writes the bounds.
func (t Target) wanted() string {
	var all []string
	if t.Least != nil {
		all = append(all, ">= "+Number(*t.Least))
	}
	if t.Most != nil {
		all = append(all, "<= "+Number(*t.Most))
	}
	return strings.Join(all, ", ")
}

func (t Target) reached(v float64) bool {
	return !math.IsNaN(v) && (t.Least == nil || v >= *t.Least) && (t.Most == nil || v <= *t.Most)
}

// Check writes the targets of what was measured, and reports whether all of them were reached.
func Check(b *Book, targets []Target) (text string, reached bool) {
	t, reached := verdicts(b, targets)
	return t.String(), reached
}

func verdicts(b *Book, targets []Target) (t table, reached bool) {
	t = table{{"target", "wanted", "median (spread)", "verdict"}}
	measured := b.Scenarios()
	reached = true
	for _, target := range targets {
		of, _ := key(target.Of) // ReadTargets has checked it
		if !slices.Contains(measured, of.Scenario) {
			continue
		}
		values := target.values(b)
		verdict := "reached"
		if !target.reached(median(values)) {
			verdict, reached = "MISSED", false
		}
		t = append(t, []string{target.Name, target.wanted(), cell(values, true), verdict})
	}
	return t, reached
}
