package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// Sizes of charts, in units of their drawings.
const (
	chartHeight = 120
	sparkHeight = 20
	columnShare = 0.8 // of its place
)

// chart draws what all agents have done, from left to right: a column for each interval.
type chart struct {
	Columns  []column
	Most     int64  // attempts that the highest column stands for
	P50, P95 string // start latency, as paths
	Slowest  string // what the upper end of the paths stands for
	Quickest string // what the lower end stands for
	Begin    string
	End      string
	Total    *ops.Activity
	Failed   int64 // of all that ended
	Spans    []spanLink
}

// spanLink leads to the same page with another span.
type spanLink struct {
	Text, Query string
	Chosen      bool
}

// column is an interval.
type column struct {
	Parts []block
	Title string
}

// block is a part of a column.
type block struct {
	X, Y, Width, Height float64
	Tone                string
}

// chartOf draws an activity.
func chartOf(a *ops.Activity) *chart {
	c := &chart{Total: a}
	for _, i := range a.Intervals {
		c.Most = max(c.Most, i.Ended)
		c.Failed += failedOf(i.Outcomes)
	}
	clock := "15:04"
	if a.Span == ops.LastTwoDays {
		clock = "Jan 2 15:04"
	}
	n := len(a.Intervals)
	for k, i := range a.Intervals {
		c.Columns = append(c.Columns, columnOf(&i, k, n, c.Most, clock))
	}
	if n > 0 {
		c.Begin, c.End = a.Intervals[0].At.UTC().Format(clock), a.Now.UTC().Format(clock)+" UTC"
	}
	c.latency(a.Intervals)
	for _, s := range []struct {
		span ops.ActivitySpan
		text string
	}{{ops.LastHour, "last hour"}, {ops.LastTwoDays, "two days"}} {
		c.Spans = append(c.Spans, spanLink{s.text, "?span=" + string(s.span), s.span == a.Span})
	}
	return c
}

// failedOf is how many attempts failed: they neither succeeded nor were released or cancelled.
func failedOf(outcomes map[task.Verdict]int64) (n int64) {
	for v, count := range outcomes {
		if v != task.Succeeded && v != task.Cancelled && !v.Releases() {
			n += count
		}
	}
	return n
}

// columnOf draws the kth of n intervals: what succeeded at the foot, what failed on top.
func columnOf(i *ops.ActivityInterval, k, n int, most int64, clock string) column {
	failed, good := failedOf(i.Outcomes), i.Outcomes[task.Succeeded]
	c := column{Title: fmt.Sprintf("%s: %s ended", i.At.UTC().Format(clock), ops.Thousands(i.Ended))}
	if failed > 0 {
		c.Title += fmt.Sprintf(", %s failed", ops.Thousands(failed))
	}
	if i.P95 != nil {
		c.Title += fmt.Sprintf("; 95%% started within %s", ops.Duration(seconds(*i.P95)))
	}
	foot := float64(chartHeight)
	for _, part := range []struct {
		n    int64
		tone string
	}{{good, "good"}, {i.Ended - good - failed, "warn"}, {failed, "bad"}} {
		if part.n <= 0 {
			continue
		}
		height := max(float64(part.n)/float64(most)*chartHeight, 1)
		foot -= height
		c.Parts = append(c.Parts, block{
			X: float64(k) / float64(n) * lineWidth, Y: max(foot, 0), Width: lineWidth / float64(n) * columnShare, Height: height, Tone: part.tone,
		})
	}
	return c
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// latency draws the start latency on a logarithmic scale: it goes from a millisecond to an hour.
func (c *chart) latency(list []ops.ActivityInterval) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, i := range list {
		if i.P50 != nil && i.P95 != nil {
			low, high = min(low, max(*i.P50, leastLatency)), max(high, *i.P95, leastLatency)
		}
	}
	if math.IsInf(low, 1) {
		return
	}
	low, high = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)+1e-9))
	c.Quickest, c.Slowest = ops.Duration(seconds(low)), ops.Duration(seconds(high))
	draw := func(of func(*ops.ActivityInterval) *float64) string {
		var path strings.Builder
		pen := "M"
		for k := range list {
			v := of(&list[k])
			if v == nil {
				pen = "M" // nothing started: a gap
				continue
			}
			x := (float64(k) + columnShare/2) / float64(len(list)) * lineWidth
			y := chartHeight * (1 - (math.Log10(max(*v, low))-math.Log10(low))/(math.Log10(high)-math.Log10(low)))
			if pen == "M" { // a line that is a point is still seen
				fmt.Fprintf(&path, "M%.1f %.1fh3", x-1.5, y)
				pen = "L"
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", pen, x, y)
		}
		return path.String()
	}
	c.P50 = draw(func(i *ops.ActivityInterval) *float64 { return i.P50 })
	c.P95 = draw(func(i *ops.ActivityInterval) *float64 { return i.P95 })
}

// leastLatency is what is not told apart from less.
const leastLatency = 1e-4 // seconds

// spark draws what ended of a type over time, and what failed of it.
func spark(t *ops.ActivityType) []block {
	most := int64(1)
	for _, n := range t.Ends {
		most = max(most, n)
	}
	var list []block
	for k, n := range t.Ends {
		if n == 0 {
			continue
		}
		x, width := float64(k)/float64(len(t.Ends))*lineWidth, lineWidth/float64(len(t.Ends))
		height := max(float64(n)/float64(most)*sparkHeight, 2)
		list = append(list, block{x, sparkHeight - height, width, height, "busy"})
		if failed := t.Failed[k]; failed > 0 {
			height := max(float64(failed)/float64(most)*sparkHeight, 2)
			list = append(list, block{x, sparkHeight - height, width, height, "bad"})
		}
	}
	return list
}

// activity reads what all agents have done, of one type or of all for "", in the span that the address names.
func (d *Dashboard) activity(r *request, typ string) (*ops.Activity, error) {
	span := ops.LastHour
	if text, err := r.text("span"); err != nil {
		return nil, err
	} else if text != "" {
		if span, err = ops.ParseActivitySpan(text); err != nil {
			return nil, &mistaken{err.Error()}
		}
	}
	return d.Histories.Look(r.ctx, span, typ, func() (*ops.Activity, error) { return ops.ReadActivity(r.ctx, d.Store, span, typ) })
}
