package model

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// lockNote is a row with a lock that has stopped to run, or to wait without being held. What it ran may be at work until then; zero:
// it has ended.
type lockNote struct {
	lock  string
	until time.Time
}

// takeLock gives a row that is claimed its lock, or holds the row back where another has the lock. given are those of this claim.
func (s *Store) takeLock(r *Row, given map[string]bool, now time.Time) bool {
	if r.Lock == "" {
		return true
	}
	if given[r.Lock] || !s.isFree(r.Lock, now) {
		r.Held = task.HoldLock
		return false
	}
	given[r.Lock] = true
	s.holders[r.Lock] = r.ID
	return true
}

// isFree reports whether no row holds a lock, and nothing is at work that held it.
func (s *Store) isFree(lock string, now time.Time) bool {
	if r := s.live[s.holders[lock]]; r != nil && r.State.Running() {
		return false
	}
	return !slices.ContainsFunc(s.lockNotes, func(n lockNote) bool { return n.lock == lock && n.until.After(now) })
}

// leave notes that a row has left its lock, or its place before others that wait for it.
func (s *Store) leave(r *Row, until time.Time) {
	if r.Lock != "" && r.Held == "" {
		s.lockNotes = append(s.lockNotes, lockNote{r.Lock, until})
	}
	r.Held = ""
}

// Promote lets locks go that rows have left, and passes on the turns of sequences.
func (s *Store) Promote(ctx context.Context, most int) (p store.Promoted, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return p, err
	}
	defer s.mu.Unlock()
	for _, n := range s.lockNotes {
		if in := n.until.Sub(now); in > 0 && (p.Next == 0 || in < p.Next) {
			p.Next = in
		}
	}
	due := map[string]bool{}
	s.lockNotes = slices.DeleteFunc(s.lockNotes, func(n lockNote) bool {
		if n.until.After(now) || p.Noted == most {
			return false
		}
		p.Noted++
		due[n.lock] = true
		return true
	})
	for lock := range due {
		if !s.isFree(lock, now) {
			continue
		}
		delete(s.holders, lock)
		n, stuck := s.promote(lock)
		p.Rows += n
		if stuck {
			p.Missed = true
			s.lockNotes = append(s.lockNotes, lockNote{lock: lock})
		}
	}
	if p = p.With(s.promoteTurns(most, now)); p.Rows > 0 {
		s.notify(store.Due)
	}
	return p, nil
}

// promote lets the first row of each class that waits for a lock become a candidate. stuck: of some class, others keep all rows.
func (s *Store) promote(lock string) (n int, stuck bool) {
	type class struct {
		typ, region string
		phase       task.Phase
	}
	firsts := map[class]*Row{}
	waiting := s.rows(func(r *Row) bool { return r.Held == task.HoldLock && r.Lock == lock })
	inOrder(waiting)
	for _, r := range waiting {
		c := class{r.Type, r.claimRegion(), r.State.Phase()}
		if firsts[c] == nil && s.kept[r.ID] == 0 {
			firsts[c] = r
		} else if _, there := firsts[c]; !there {
			firsts[c] = nil
		}
	}
	for _, r := range firsts {
		if r == nil {
			stuck = true
			continue
		}
		r.Held = ""
		n++
	}
	return n, stuck
}

// LocksArePassedOn reports whether no note waits for a promotion.
func (s *Store) LocksArePassedOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lockNotes) == 0 && len(s.turns.notes) == 0
}
