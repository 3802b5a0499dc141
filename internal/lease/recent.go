package lease

import "time"

const (
	recentFor   = time.Minute // what counts as recent
	recentEvery = time.Second // how often a count is kept, at most: so a few dozen are
)

// recent is how much of a count came within the last minute, to a heartbeat.
type recent struct{ counts []countAt }

type countAt struct {
	at time.Duration // local time
	n  int64
}

// of notes that the count is n now, and returns how much of it is recent.
func (r *recent) of(now time.Duration, n int64) int64 {
	if last := len(r.counts) - 1; last < 0 || now-r.counts[last].at >= recentEvery {
		r.counts = append(r.counts, countAt{now, n})
	}
	old := 0
	for old+1 < len(r.counts) && now-r.counts[old+1].at >= recentFor {
		old++
	}
	r.counts = append(r.counts[:0], r.counts[old:]...)
	return n - r.counts[0].n
}
