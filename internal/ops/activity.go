package ops

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Activities is where the activity of all agents is read.
type Activities interface {
	// Activity sums what all sessions have counted in so many intervals up to now, the present one included: of one type, or of all for "".
	// Of all it tells those store.ActivityTop types apart that have the most attempts.
	Activity(ctx context.Context, step store.ActivityStep, intervals int, typ string) (store.Activity, error)
}

// ActivitySpan is how far back the activity is shown.
type ActivitySpan string

// The spans.
const (
	LastHour    ActivitySpan = "1h"  // in 60 minutes
	LastTwoDays ActivitySpan = "48h" // in 48 hours
)

// ParseActivitySpan reads a span.
func ParseActivitySpan(text string) (ActivitySpan, error) {
	if s := ActivitySpan(text); s == LastHour || s == LastTwoDays {
		return s, nil
	}
	return "", fmt.Errorf("invalid span %q: use %s or %s", text, LastHour, LastTwoDays)
}

func (s ActivitySpan) intervals() (store.ActivityStep, int) {
	if s == LastTwoDays {
		return store.ActivityHour, 48
	}
	return store.ActivityMinute, 60
}

// Activity is what all agents of a store have done lately. Times are the store's clock. An agent writes its counts about every ten seconds.
type Activity struct {
	Span      ActivitySpan       `json:"span"`
	StepS     int                `json:"step_s"` // length of an interval, in seconds
	Now       time.Time          `json:"now"`
	Type      string             `json:"type,omitempty"` // the type that it is of; "": all
	Total     ActivityCounts     `json:"total"`
	Intervals []ActivityInterval `json:"intervals"`       // oldest first, without a gap; the last one is not over
	Types     []ActivityType     `json:"types,omitempty"` // of all types, those with the most attempts, most first
	Other     *ActivityType      `json:"other,omitempty"` // of all types, the sum of those not in Types; nil: there are none
}

// ActivityCounts counts attempts: those that started, and those that ended. Start latency is the time from when a row was due until its attempt
// started. It is estimated from counts in buckets (store.ActivityBounds), and is null if nothing started.
type ActivityCounts struct {
	Started  int64                  `json:"started"`
	Ended    int64                  `json:"ended"`
	Outcomes map[task.Verdict]int64 `json:"outcomes"` // of those that ended, without zeros
	P50      *float64               `json:"start_latency_p50_s"`
	P95      *float64               `json:"start_latency_p95_s"`
	P99      *float64               `json:"start_latency_p99_s"`
}

// ActivityInterval is what was counted in an interval.
type ActivityInterval struct {
	At time.Time `json:"at"` // its beginning
	ActivityCounts
}

// ActivityType is what was counted of a type in the whole span.
type ActivityType struct {
	Type string `json:"type,omitempty"` // "": of types that are not told apart
	ActivityCounts
	Ends   []int64 `json:"ended_by_interval"`  // as Activity.Intervals
	Failed []int64 `json:"failed_by_interval"` // of these, those that were neither a success nor released, nor cancelled
}

// ReadActivity returns what all agents have done lately, of one type or of all for "".
func ReadActivity(ctx context.Context, s Activities, span ActivitySpan, typ string) (*Activity, error) {
	step, n := span.intervals()
	read, err := s.Activity(ctx, step, n, typ)
	if err != nil {
		return nil, err
	}
	a := &Activity{Span: span, StepS: int(step.Length().Seconds()), Now: read.Now, Type: typ}
	var total store.ActivityCounts
	sums := make([]store.ActivityCounts, n)
	types := map[string]*typeSum{}
	for i := range read.Rows {
		r := &read.Rows[i]
		place := int(r.At.Sub(read.From) / step.Length())
		if place < 0 || place >= n {
			continue
		}
		total.Add(&r.ActivityCounts)
		sums[place].Add(&r.ActivityCounts)
		if typ == "" {
			if types[r.Type] == nil {
				types[r.Type] = &typeSum{ActivityType: ActivityType{Type: r.Type, Ends: make([]int64, n), Failed: make([]int64, n)}}
			}
			types[r.Type].add(place, &r.ActivityCounts)
		}
	}
	a.Total = countsOf(&total)
	for i := range sums {
		a.Intervals = append(a.Intervals, ActivityInterval{At: read.From.Add(time.Duration(i) * step.Length()), ActivityCounts: countsOf(&sums[i])})
	}
	for name, t := range types {
		t.ActivityCounts = countsOf(&t.sum)
		if name == "" {
			a.Other = &t.ActivityType
		} else {
			a.Types = append(a.Types, t.ActivityType)
		}
	}
	slices.SortFunc(a.Types, func(x, y ActivityType) int {
		return cmp.Or(cmp.Compare(y.Started+y.Ended, x.Started+x.Ended), strings.Compare(x.Type, y.Type))
	})
	return a, nil
}

// typeSum is what was counted of a type, while it is summed.
type typeSum struct {
	ActivityType
	sum store.ActivityCounts
}

func (t *typeSum) add(place int, n *store.ActivityCounts) {
	t.sum.Add(n)
	t.Ends[place] += n.Ended()
	for i, v := range store.ActivityOutcomes() {
		if v != task.Succeeded && v != task.Cancelled && !v.Releases() {
			t.Failed[place] += n.Outcomes[i]
		}
	}
}

func countsOf(n *store.ActivityCounts) ActivityCounts {
	c := ActivityCounts{
		Started: n.Started(), Ended: n.Ended(), Outcomes: map[task.Verdict]int64{},
		P50: Quantile(n.Latency[:], 0.5), P95: Quantile(n.Latency[:], 0.95), P99: Quantile(n.Latency[:], 0.99),
	}
	for i, v := range store.ActivityOutcomes() {
		if n.Outcomes[i] > 0 {
			c.Outcomes[v] = n.Outcomes[i]
		}
	}
	return c
}

// Quantile estimates a quantile of start latency in seconds, to a microsecond, 0 < q <= 1, from counts in buckets with store.ActivityBounds. It
// takes values to be spread evenly in their bucket, as Prometheus does. What took longer than the last bound is taken to have taken that
// long. nil: there are no counts.
func Quantile(counts []int64, q float64) *float64 {
	var all int64
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return nil
	}
	bounds := store.ActivityBounds()
	rank, below := q*float64(all), 0.0
	lower := 0.0
	for i, bound := range bounds {
		upper := bound.Seconds()
		if n := float64(counts[i]); n > 0 && below+n >= rank {
			value := math.Round((lower+(upper-lower)*(rank-below)/n)*1e6) / 1e6
			return &value
		}
		below, lower = below+float64(counts[i]), upper
	}
	return &lower
}
