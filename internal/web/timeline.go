package web

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// timeline draws a task's life from left to right: what it waited, and its attempts.
type timeline struct {
	Bars  []bar
	Begin time.Time
	Took  time.Duration
	Left  int // attempts that are not drawn
}

// bar is an attempt, or the time before the first one. X and Width are parts of 1000.
type bar struct {
	X, Width float64
	Tone     string
	Title    string
}

// Bounds of a timeline.
const (
	lineWidth = 1000
	leastBar  = 4  // what is shorter is still seen
	mostBars  = 60 // attempts
)

// timelineOf draws a task that was read at now.
func timelineOf(t *ops.Task, now time.Time) timeline {
	end := now
	if t.FinishedAt != nil {
		end = *t.FinishedAt
	}
	l := timeline{Begin: t.CreatedAt, Took: max(end.Sub(t.CreatedAt), 0)}
	if l.Took == 0 {
		return l
	}
	attempts := ops.History(t)
	if over := len(attempts) - mostBars; over > 0 {
		l.Left, attempts = over, attempts[over:]
	}
	for _, a := range attempts {
		if a.StartedAt != nil {
			l.add(*a.StartedAt, a.EndedAt, outcomeTone(a.Outcome), fmt.Sprintf("%s %d: %s after %s", a.Phase, a.Attempt, a.Outcome, ops.Duration(a.Took)))
		}
	}
	switch {
	case t.State.Running() && t.ClaimedAt != nil:
		l.add(*t.ClaimedAt, now, "busy", "running for "+ops.Age(now.Sub(*t.ClaimedAt)))
	case t.State == task.StateSucceeded && t.ClaimedAt != nil && t.FinishedAt != nil:
		l.add(*t.ClaimedAt, *t.FinishedAt, "good", "succeeded after "+ops.Duration(t.FinishedAt.Sub(*t.ClaimedAt)))
	}
	return l
}

// add draws what lasted from one time to another.
func (l *timeline) add(from, to time.Time, tone, title string) {
	place := func(at time.Time) float64 {
		return min(max(float64(at.Sub(l.Begin))/float64(l.Took)*lineWidth, 0), lineWidth)
	}
	x := min(place(from), lineWidth-leastBar)
	l.Bars = append(l.Bars, bar{x, max(place(to)-x, leastBar), tone, title})
}
