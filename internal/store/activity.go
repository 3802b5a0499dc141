package store

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ActivityStep is how much time one row of the activity covers. Each session writes its own counts at both steps, so that a chart of
// an hour and one of two days read about as few rows, and no agent has to fold what others wrote: a fold would count twice what is
// written again after it.
type ActivityStep int

// The steps, in minutes.
const (
	ActivityMinute ActivityStep = 1
	ActivityHour   ActivityStep = 60
)

// Length returns how much time a row covers.
func (s ActivityStep) Length() time.Duration { return time.Duration(s) * time.Minute }

// Kept returns how long rows are kept, and accepted: a session may write them that late.
func (s ActivityStep) Kept() time.Duration {
	if s == ActivityHour {
		return 48 * time.Hour
	}
	return 2 * time.Hour
}

// Of returns the beginning of the interval that t is in, in UTC.
func (s ActivityStep) Of(t time.Time) time.Time { return t.UTC().Truncate(s.Length()) }

// Bounds on the activity.
const (
	// ActivityAhead is how far ahead of the store's clock an interval may begin that is written: agents know that clock only roughly.
	ActivityAhead = 2 * time.Minute
	// ActivityTypes is of how many types a session counts at once; all others count together, as the type "".
	ActivityTypes = 500
	// ActivityTop is how many types one reading tells apart; all others are summed as the type "".
	ActivityTop = 20
	// ActivityRows is how many rows are written at once.
	ActivityRows = 500
)

// activityBounds are the upper bounds of the buckets of start latency; what took longer than the last has a bucket of its own.
var activityBounds = [...]time.Duration{ //nolint:gochecknoglobals // never changes
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second,
	15 * time.Second, time.Minute, 5 * time.Minute, time.Hour,
}

// ActivityBounds returns the upper bounds of the buckets of start latency, ascending. One more bucket has what took longer.
func ActivityBounds() []time.Duration { return slices.Clone(activityBounds[:]) }

// LatencyBucket returns the place of the bucket for a start latency.
func LatencyBucket(d time.Duration) int {
	i, _ := slices.BinarySearch(activityBounds[:], d)
	return i
}

// activityOutcomes are the verdicts in the order in which stores keep their counts. New ones come last: rows that were written before
// end earlier.
var activityOutcomes = [...]task.Verdict{ //nolint:gochecknoglobals // never changes
	task.Succeeded, task.Failed, task.Rejected, task.Stalled, task.TimedOut, task.Lost, task.Cancelled,
	task.Deferred, task.Superseded, task.Undelivered, task.Drained,
}

// ActivityOutcomes returns the verdicts in the order of ActivityCounts.Outcomes.
func ActivityOutcomes() []task.Verdict { return slices.Clone(activityOutcomes[:]) }

// OutcomePlace returns the place of a verdict in ActivityCounts.Outcomes; -1 for one that is unknown.
func OutcomePlace(v task.Verdict) int {
	for i := range activityOutcomes { // the first one mostly
		if activityOutcomes[i] == v {
			return i
		}
	}
	return -1
}

// ActivityCounts counts attempts. An attempt counts when it starts and again when it ends, each in the interval in which that happened.
type ActivityCounts struct {
	Outcomes [len(activityOutcomes)]int64   // attempts that ended, by verdict: see ActivityOutcomes
	Latency  [len(activityBounds) + 1]int64 // attempts that started, by how late that was after the row was due: see ActivityBounds
}

// Started returns how many attempts started.
func (c *ActivityCounts) Started() int64 { return total(c.Latency[:]) }

// Ended returns how many attempts ended.
func (c *ActivityCounts) Ended() int64 { return total(c.Outcomes[:]) }

// Of returns how many attempts ended with a verdict.
func (c *ActivityCounts) Of(v task.Verdict) int64 {
	if i := OutcomePlace(v); i >= 0 {
		return c.Outcomes[i]
	}
	return 0
}

// IsZero reports whether nothing was counted.
func (c *ActivityCounts) IsZero() bool { return *c == ActivityCounts{} }

// Add adds what another has counted.
func (c *ActivityCounts) Add(o *ActivityCounts) {
	for i, n := range o.Outcomes {
		c.Outcomes[i] += n
	}
	for i, n := range o.Latency {
		c.Latency[i] += n
	}
}

// Sub subtracts what another has counted.
func (c *ActivityCounts) Sub(o *ActivityCounts) {
	for i, n := range o.Outcomes {
		c.Outcomes[i] -= n
	}
	for i, n := range o.Latency {
		c.Latency[i] -= n
	}
}

func total(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// ActivityRow is what one session has counted of a type in one interval: not what was added since it was last written, so a write
// whose reply was lost is simply repeated.
type ActivityRow struct {
	Step ActivityStep
	At   time.Time // beginning of the interval, by the store's clock
	Type string    // as declared; "": of types beyond ActivityTypes
	ActivityCounts
}

// Activity is what all sessions have counted.
type Activity struct {
	Now  time.Time     // by the store's clock
	From time.Time     // beginning of the first interval; the last one is that of Now
	Rows []ActivitySum // by time and type; intervals in which nothing happened have none
}

// ActivitySum is the sum of the rows of an interval and a type.
type ActivitySum struct {
	At   time.Time
	Type string // "": of those types that are not told apart
	ActivityCounts
}

// ActivityWindow returns the beginnings of the first and of the last of so many intervals up to now.
func ActivityWindow(step ActivityStep, intervals int, now time.Time) (from, last time.Time) {
	last = step.Of(now)
	return last.Add(-time.Duration(intervals-1) * step.Length()), last
}

// ActivityCount returns a count as stores keep it: none is negative, or beyond what fits 32 bits.
func ActivityCount(n int64) int32 {
	return int32(min(max(n, 0), math.MaxInt32))
}

// ActivityList returns counts as a list between two brackets, without the zeros at its end.
func ActivityList(counts []int64, left, right string) string {
	n := len(counts)
	for n > 0 && counts[n-1] == 0 {
		n--
	}
	b := append(make([]byte, 0, 2+4*n), left...)
	for i, c := range counts[:n] {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(ActivityCount(c)), 10)
	}
	return string(append(b, right...))
}

// AddLists adds lists of counts as ActivityList writes them in square brackets, one after another. What is no such list, or is longer than
// the counts, is passed over: an application may have written anything into a file.
func AddLists(counts []int64, lists []byte) {
	place, n := 0, int64(0)
	add := func() {
		if place < len(counts) {
			counts[place] += n
		}
		place, n = place+1, 0
	}
	for _, c := range lists {
		switch {
		case c == '[':
			place, n = 0, 0
		case c == ',' || c == ']':
			add()
		case c >= '0' && c <= '9':
			n = min(10*n+int64(c-'0'), math.MaxInt32)
		}
	}
}
