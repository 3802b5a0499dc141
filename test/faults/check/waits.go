package check

import (
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// StartsAfterAll says: a row that waits for others is claimed only when all of them have ended, in states that it allows. That none waits for
// ever is CommittedEnds' business.
//
// It must hold because it is held back from the transaction that inserts it on, and freed only by a transaction that has read the states
// of all in one snapshot, when none was live.
//
// Exempt says: rows that an operator has changed, which may have been revived since.
const StartsAfterAll Name = "StartsAfterAll"

// CancelledForOne says: a row that waits for others, and is cancelled without a request, names one of them as the reason, which did not succeed,
// and it wanted success.
//
// It must hold because the state of that one is read in the transaction that cancels the row, and kept from changing until that has committed.
const CancelledForOne Name = "CancelledForOne"

func waitsForAll(x *index, f *found) {
	for _, s := range x.records {
		if s.row == nil || s.enqueued == nil || len(s.enqueued.After) == 0 {
			continue
		}
		for _, id := range s.enqueued.After {
			if before := x.byID[id]; before != nil && !x.changed(before) {
				x.inspectWait(s, before, f)
			}
		}
		if what := x.unfounded(s); what != "" {
			f.add(CancelledForOne, x.last(s), s.id, "it is cancelled: %q: %s", s.row.Error, what)
		}
	}
}

// inspectWait looks where another row stood before one was claimed first. A row that has been freed stays so, whatever its batch makes of the
// other before it is claimed: it is enough that the other stood well at one moment since the row was inserted.
func (x *index) inspectWait(s, before *record, f *found) {
	i := slices.IndexFunc(s.moves, func(m *history.Move) bool { return m.State == string(task.StateRunning) })
	if i < 0 {
		return
	}
	var stood *history.Move
	well := false
	for _, m := range before.moves {
		if m.Serial > s.moves[i].Serial {
			break
		}
		if m.Serial < s.moves[0].Serial {
			well = false
		}
		stood, well = m, well || m.Archived && (s.enqueued.AfterAny || m.State == string(task.StateSucceeded))
	}
	switch fence := s.moves[i].Fence; {
	case well:
	case stood == nil:
		f.add(StartsAfterAll, x.last(s), s.id, "it was claimed with fence %d, and task %d was not there", fence, before.id)
	case !stood.Archived:
		f.add(StartsAfterAll, x.last(s), s.id, "it was claimed with fence %d, and task %d was %s", fence, before.id, stood.State)
	default:
		f.add(StartsAfterAll, x.last(s), s.id, "it was claimed with fence %d, and task %d had ended as %s", fence, before.id, stood.State)
	}
}

// changed reports whether an operator may have changed a row, or its batch.
func (x *index) changed(s *record) bool { return len(s.ops) > 0 || len(x.batches.ops[s.batch()]) > 0 }

// becauseOf returns for which row, and why, one was cancelled that waits for others; 0: for none.
func (s *record) becauseOf() (id int64) {
	if s.enqueued == nil || len(s.enqueued.After) == 0 || s.row.State != string(task.StateCancelled) {
		return 0
	}
	if _, err := fmt.Sscanf(s.row.Error, "task %d ", &id); err != nil {
		return 0
	}
	return id
}

// unfounded is what is wrong with the reason for which a row was cancelled; "": nothing.
func (x *index) unfounded(s *record) string {
	id := s.becauseOf()
	before := x.byID[id]
	switch {
	case id == 0:
		return "" // CancelledStays
	case !slices.Contains(s.enqueued.After, id):
		return "it did not wait for that"
	case s.enqueued.AfterAny:
		return "it was to run however that ends"
	case before != nil && before.row != nil && before.row.State == string(task.StateSucceeded) && !x.changed(before):
		return "that has succeeded"
	}
	return ""
}

// revivedWith reports whether a row may have been revived with one for which it waits, directly or not.
func (x *index) revivedWith(s *record) bool {
	if s.enqueued == nil {
		return false
	}
	seen, left := map[int64]bool{}, slices.Clone(s.enqueued.After)
	for len(left) > 0 {
		id := left[len(left)-1]
		left = left[:len(left)-1]
		before := x.byID[id]
		if before == nil || seen[id] {
			continue
		}
		if seen[id] = true; x.requested(before, verbRetry, forever) {
			return true
		}
		if before.enqueued != nil {
			left = append(left, before.enqueued.After...)
		}
	}
	return false
}
