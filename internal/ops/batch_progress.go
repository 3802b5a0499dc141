package ops

import (
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// BatchCount is how many tasks of a batch are in one group of states.
type BatchCount struct {
	Name string // as people read it: "rolled back"
	N    int64
}

// BatchCounts returns all tasks of a batch by group, in the order in which a task passes through them.
func BatchCounts(b *store.BatchInfo) []BatchCount {
	return []BatchCount{
		{"waiting", b.Waiting}, {"running", b.Running}, {"rolling_back", b.RollingBack}, {"succeeded", b.Succeeded}, {"failed", b.Failed},
		{"cancelled", b.Cancelled}, {"rolled back", b.RolledBack}, {"rollback failed", b.RollbackFailed},
	}
}

// BatchFaults returns how often a task of the batch has failed for good, rollbacks included. A rise says that BatchFailures
// has something new.
func BatchFaults(b *store.BatchInfo) int64 { return max(b.Failures, b.Failed) + b.RollbackFailed }

// BatchOpen reports whether further tasks may be added to a batch.
func BatchOpen(b *store.BatchInfo) bool { return !b.Sealed && b.EndedAt == nil }

// BatchDone returns how far a batch is: done of how many tasks. While the batch is rolled back (back) it counts the other way:
// tasks that were rolled back or cancelled.
func BatchDone(b *store.BatchInfo) (done, of int64, back bool) {
	if b.State != store.BatchRollingBack {
		return b.Total - b.Live, b.Total, false
	}
	done = b.RolledBack + b.RollbackFailed + b.Cancelled
	if b.Operation != "" { // the operation has yet to reach some
		return done, b.Total, true
	}
	return done, done + b.Live, true
}

// BatchShare returns BatchDone as a share, 0 to 1. A batch without tasks is at 1 once it has ended.
func BatchShare(b *store.BatchInfo) float64 {
	done, of, _ := BatchDone(b)
	switch {
	case of > 0:
		return float64(done) / float64(of)
	case b.EndedAt != nil:
		return 1
	}
	return 0
}

// Bounds of a Pace.
const (
	paceOver    = 30 * time.Second       // how far it looks back
	paceLeast   = time.Second            // what is measured over less says nothing
	longestLeft = 36500 * 24 * time.Hour // an estimate beyond this is none
)

// Pace measures how fast a batch advances, over the last half minute. The zero value has seen nothing.
type Pace struct {
	back bool // the batch is rolled back, which is another count
	seen []paceSample
}

type paceSample struct {
	at   time.Time
	done int64
}

// Add takes in the batch as it was read at a time. Times must not fall.
func (p *Pace) Add(b *store.BatchInfo, at time.Time) {
	done, _, back := BatchDone(b)
	if n := len(p.seen); n > 0 && (back != p.back || done < p.seen[n-1].done) { // rolled back, or retried: begin anew
		p.seen = nil
	}
	p.back = back
	p.seen = append(p.seen, paceSample{at, done})
	for len(p.seen) > 2 && at.Sub(p.seen[1].at) > paceOver {
		p.seen = p.seen[1:]
	}
}

// Rate returns tasks per second. ok is false while less than a second has been seen.
func (p *Pace) Rate() (rate float64, ok bool) {
	if len(p.seen) < 2 {
		return 0, false
	}
	first, last := p.seen[0], p.seen[len(p.seen)-1]
	if took := last.at.Sub(first.at); took >= paceLeast {
		return float64(last.done-first.done) / took.Seconds(), true
	}
	return 0, false
}

// Left estimates how long the batch still takes at its present rate, in whole seconds. ok is false where nothing can be said:
// the rate is unknown or zero, nothing is left, or an open batch may still grow.
func (p *Pace) Left(b *store.BatchInfo) (left time.Duration, ok bool) {
	rate, ok := p.Rate()
	done, of, _ := BatchDone(b)
	if !ok || rate <= 0 || of <= done || !b.Sealed || b.EndedAt != nil {
		return 0, false
	}
	seconds := float64(of-done) / rate
	if seconds >= longestLeft.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)).Round(time.Second), true
}
