package check

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// CancelHolds says: once a batch's cancel or rollback has committed, no row of it is claimed to be run, however long it
// takes to mark them, until somebody retries it.
//
// It must hold because a claim looks at the batches of its rows after it has locked them, and a cancel waits for the
// claims in flight before it commits. That it had committed is known from a look at the store: what is claimed after
// that has a higher fence.
//
// Exempt says: a crash of the server just after the look, which may lose what was seen of a transaction that was not
// flushed.
const CancelHolds Name = "CancelHolds"

// flushed is how long after it was seen a transaction is on the disk, at the latest.
const flushed = time.Second

func cancelHolds(x *index, f *found) {
	for i := range x.h.Of.Samples {
		sample := &x.h.Of.Samples[i]
		if !sample.Stopping || len(sample.Fences) == 0 || slices.ContainsFunc(x.h.Crashes, func(at time.Duration) bool {
			return at >= sample.At-sample.Within-x.slack && at <= sample.At+flushed
		}) {
			continue
		}
		for id, fence := range sample.Fences {
			if s := x.byID[id]; s != nil {
				x.judgeHeld(s, sample, fence, f)
			}
		}
	}
}

// judgeHeld looks for claims of a row that had this fence when its batch was seen to be called off.
func (x *index) judgeHeld(s *story, sample *history.BatchSample, fence int64, f *found) {
	round := -1
	for i, m := range s.moves {
		switch {
		case m.Fence <= fence:
			round = m.Round
		case m.State == "running" && m.Round == round && waits(s.moves[i-1].State):
			f.add(CancelHolds, sample.At, s.id, "it was claimed with fence %d in round %d, and had fence %d when its batch %d was seen to be called off",
				m.Fence, m.Round, fence, sample.ID)
			return
		}
	}
}
