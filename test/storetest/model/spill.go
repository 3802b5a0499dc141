package model

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Spill lets agents of any region claim rows that have waited too long for those of theirs.
func (s *Store) Spill(ctx context.Context, region string, types []store.Spill) (n int, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	for _, of := range types {
		rows := s.rows(func(r *Row) bool {
			return r.State.Waiting() && r.Held == "" && r.Type == of.Type && r.Region != "" && !r.Spilled &&
				r.Region != region && !r.firstDue().After(now.Add(-of.After))
		})
		slices.SortStableFunc(rows, func(a, b *Row) int { return a.firstDue().Compare(b.firstDue()) })
		for _, r := range rows[:min(len(rows), store.SpillMost-n)] {
			r.Spilled = true
			n++
		}
	}
	if n > 0 {
		s.notify(store.Due)
	}
	return n, nil
}

// firstDue is since when the row has been waiting.
func (r *Row) firstDue() time.Time {
	if r.FirstDue.IsZero() {
		return r.RunAt
	}
	return r.FirstDue
}

// waitsAgain notes since when a row that is released has been waiting: it is called before its next due time is set.
func (r *Row) waitsAgain(e store.Settlement) {
	if e.DueAnew() {
		r.FirstDue = time.Time{}
		return
	}
	r.FirstDue = r.firstDue()
}

// claimRegion is the region whose agents claim the row; "": all do.
func (r *Row) claimRegion() string {
	if r.Spilled {
		return ""
	}
	return r.Region
}
