package check

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// SequenceInOrder says: the next row of a sequence is the one with the lowest id among those that had committed when it was chosen. What is
// known of that moment is that the row before it had started: a row that had committed by then comes before all with a higher id.
//
// It must hold because the next one is chosen after the one before has ended, in a transaction that sees all that has committed by then.
//
// Exempt says: rows that an operator has retried or rolled back, which have a second turn; rows of batches, and those whose commit got
// no reply, or did not wait for the disk.
const SequenceInOrder Name = "SequenceInOrder"

// FailureBlocks says: where failures block a sequence, no row with a higher id starts after one that has failed, until an operator skips that, or cancels
// what waits.
//
// It must hold because a failure is recorded in the transaction that ends the row, and no head is chosen behind it while it is on record.
//
// Exempt says: rows that an operator has retried or rolled back.
const FailureBlocks Name = "FailureBlocks"

// turn is a row's place in its sequence.
type turn struct {
	s           *record
	first, last time.Duration // when its first and its last attempt started
}

// turnsOf returns the turns that attempts were made in, which are in the order of time.
func turnsOf(attempts []*attempt, rows map[int64]*record) (all []turn) {
	for _, a := range attempts {
		i := slices.IndexFunc(all, func(t turn) bool { return t.s.id == a.id })
		if i < 0 {
			i, all = len(all), append(all, turn{s: rows[a.id], first: a.start.At})
		}
		all[i].last = a.start.At
	}
	return all
}

// inspectTurns looks for rows that have come too late, and for such as started although the sequence was blocked.
func (x *index) inspectTurns(kind, name string, turns []turn, f *found) {
	for i := len(turns) - 1; i > 0; i-- {
		t, before := turns[i], turns[i-1]
		for _, later := range turns[i+1:] {
			if e := later.s.enqueued; later.s.id < t.s.id && e.Batch == "" && e.CommittedAt > 0 && e.CommittedAt < before.first {
				f.add(SequenceInOrder, t.first, t.s.id, "it started before task %d, which had committed %s before task %d of its sequence %s started",
					later.s.id, (before.first - e.CommittedAt).Round(time.Millisecond), before.s.id, name)
			}
		}
		for _, earlier := range turns[:i] {
			failed := earlier.s.id < t.s.id && earlier.s.row != nil && earlier.s.row.State == string(task.StateFailed)
			if x.h.Kinds[kind].Blocks && failed && !x.resolved(kind, name, earlier, t.first) {
				f.add(FailureBlocks, t.first, t.s.id, "it started although task %d of its sequence %s has failed, and no operator has resolved that",
					earlier.s.id, name)
			}
		}
	}
}

// resolved reports whether an operator may have resolved the failure of a row before that time.
func (x *index) resolved(kind, name string, failed turn, before time.Duration) bool {
	return slices.ContainsFunc(x.h.Ops, func(o history.Op) bool {
		refused := o.Error != "" && o.At > 0
		return o.Kind == kind && o.Sequence == name && !refused && o.Requested < before && (o.At == 0 || o.At > failed.last) &&
			(o.Verb == verbSkip && o.ID == failed.s.id || o.Verb == verbCancel)
	})
}
