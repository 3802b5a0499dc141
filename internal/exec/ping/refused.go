package ping

import (
	"fmt"
	"time"
)

// Refused keeps what was sent as pings by one attempt and were none, for the log: nothing else would say why the
// task is taken for hung.
type Refused struct {
	n    int
	last string
}

// Add adds one. It reports whether it is the first.
func (r *Refused) Add(err error) (first bool) {
	r.n++
	r.last = err.Error()
	return r.n == 1
}

// String is what is to be said of it behind an error; "" for nothing.
func (r *Refused) String() string {
	switch r.n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" (a ping was malformed and did not count: %s)", r.last)
	}
	return fmt.Sprintf(" (%d pings were malformed and did not count, the last one because %s)", r.n, r.last)
}

// Bounds of Pause.
const (
	shortestPause = time.Millisecond
	longestPause  = 50 * time.Millisecond
	workShare     = 10 // one part of so many
)

// Pause is how long the reader of one attempt's pings is to wait before it reads on, after it has worked on them
// for that long: a task that pings without a pause is slowed down, and takes a tenth of a core at most. Mostly it is 0.
func Pause(worked time.Duration) time.Duration {
	p := min((workShare-1)*worked, longestPause)
	if p < shortestPause {
		return 0
	}
	return p
}
