package check

import (
	"github.com/leasehold/leasehold/test/faults/history"
)

// RolledBackNeverRuns says: what was rolled back never was. No row has the key of an enqueue that was rolled back, and
// nothing was ever started, and no effect made, under an id that the store does not have.
//
// It must hold because a claim sees committed rows only, and is read to its end, commit included, before any of its rows
// starts.
//
// Exempt says: a key that was enqueued again and committed then; an id that a crash handed out a second time (a
// sequence may fall back to where its last flushed transaction left it), as long as the row that has it was committed.
// A row that was lost in a crash is none of them: it can only be lost while it never started.
const RolledBackNeverRuns Name = "RolledBackNeverRuns"

func rolledBackNeverRuns(x *index, f *found) {
	for i := range x.h.Enqueued {
		e, s := &x.h.Enqueued[i], x.byEntry[i]
		if e.Commit == history.RolledBack && s != nil && s.enqueued == nil {
			f.add(RolledBackNeverRuns, x.last(s), s.id, "%q was rolled back, and the store has it as %s", e.Key, s.row.State)
		}
	}
	for _, s := range x.records {
		switch {
		case s.row != nil:
		case len(s.attempts) > 0:
			e := s.attempts[0].events[0]
			f.add(RolledBackNeverRuns, e.At, s.id, "%s with fence %d, and the store has no such row", e.What, e.Fence)
		case len(s.effects) > 0:
			f.add(RolledBackNeverRuns, x.end, s.id, "an effect was made with fence %d, and the store has no such row", s.effects[0].Fence)
		}
	}
}
