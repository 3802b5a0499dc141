package model

import (
	"context"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Left returns what others may have left to do.
func (s *Store) Left(ctx context.Context) (left store.Left, err error) {
	if _, err := s.begin(ctx); err != nil {
		return left, err
	}
	defer s.mu.Unlock()
	left.Turns = len(s.lockNotes)+len(s.turns.notes) > 0
	left.Ends = len(s.revivedNotes) > 0
	for _, r := range s.rows(func(r *Row) bool { return r.Held == task.HoldAfter }) {
		left.Waiting, left.Ends = true, left.Ends || !s.waitsOn(r)
	}
	left.Changes = s.unfinished(func(*Operation) bool { return true }) != nil ||
		slices.ContainsFunc(s.bulks, func(b *Bulk) bool { return !b.Over })
	left.Paused = slices.Clone(s.pauses)
	return left, nil
}
