package model

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// revivedNote is a task that was retried, and of which others may have to be revived that were cancelled on account of it: those with
// ids up to place have been looked at.
type revivedNote struct {
	id, place task.ID
	batch     task.BatchID
}

// noteRevival notes that a task was retried, if others were cancelled on account of it.
func (s *Store) noteRevival(r *Row) {
	if len(s.cancelledFor(r.ID)) > 0 {
		s.revivedNotes = append(s.revivedNotes, revivedNote{id: r.ID, batch: r.Batch})
	}
}

// cancelledFor returns which tasks were cancelled on account of one, sorted.
func (s *Store) cancelledFor(id task.ID) (ids []task.ID) {
	if !s.cancelling[id] {
		return nil // every look at a task asks, and few tasks are such
	}
	for of, r := range s.archive {
		if r.CancelledFor == id {
			ids = append(ids, of)
		}
	}
	slices.Sort(ids)
	return ids
}

// reviveDependents revives what was cancelled on account of tasks that were retried: so many at most.
func (s *Store) reviveDependents(most int, now time.Time, u *store.Unblocked) {
	for len(s.revivedNotes) > 0 {
		n := &s.revivedNotes[0]
		for _, of := range s.cancelledFor(n.id) {
			switch r := s.archive[of]; {
			case of <= n.place:
				continue
			case u.Revived == most:
				return
			default:
				n.place = of
				u.Worked++
				if why := s.barred(r); why != "" {
					r.Error = store.NotRevivedError(r.Error, why)
				} else {
					s.revive(r, now)
					n = &s.revivedNotes[0] // it may have left a note in turn
					u.Revived++
				}
			}
		}
		s.revivedNotes = s.revivedNotes[1:]
		u.Worked++
	}
}

// barred is why a task cannot be revived with the one on account of which it was cancelled; "": it can.
func (s *Store) barred(r *Row) string {
	if live := s.keyed(r); live != nil {
		return store.BarredByKey(live.ID)
	}
	if b := s.batches[r.Batch]; b != nil && (b.ended() || b.Requested != "") {
		return store.BarredByBatch(b.ID, b.ended(), b.Requested)
	}
	return ""
}
