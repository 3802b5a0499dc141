package model

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// MoveOrphans gives some of the waiting rows of a type that no present agent declares another type: first those without a sequence, then whole
// sequences.
func (s *Store) MoveOrphans(ctx context.Context, o store.OrphanStep) (done store.OrphansStepped, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return done, err
	}
	defer s.mu.Unlock()
	if err := s.checkOrphans(o, now); err != nil {
		return done, err
	}
	if o.Into == "" || len(o.Into) > store.MaxType || o.Into == o.Type {
		return done, &store.InputError{Text: "the other type must have 1 to 255 bytes, and be another"}
	}
	if err := s.fail(beforeSettle); err != nil {
		return done, err
	}
	var groups [][]*Row
	if o.From.Sequences {
		groups = s.sequencesFrom(o, &done)
	} else {
		for _, r := range s.orphansFrom(o, &done, func(r *Row) bool { return r.Sequence == "" }) {
			groups = append(groups, []*Row{r})
		}
		if done.Done {
			done.Next, done.Done = store.OrphanCursor{Sequences: true}, false
		}
	}
	var moved []*Row
	for _, group := range groups {
		left := s.whatKeeps(group, o, now)
		switch {
		case left.Rows == 0:
		case left.Reason == "":
			moved = append(moved, group...)
		default:
			done.Left = append(done.Left, left)
		}
	}
	slices.SortFunc(done.Left, func(a, b store.OrphanLeft) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(moved, func(a, b *Row) int { return cmp.Compare(a.ID, b.ID) })
	if done.Changed = len(moved); done.Changed > 0 && !o.Preview {
		s.moveRows(moved, o)
	}
	return done, s.fail(afterSettle)
}

// sequencesFrom returns the next sequences of the type, which have OrphansChanged rows at most in all, or one that has more.
func (s *Store) sequencesFrom(o store.OrphanStep, done *store.OrphansStepped) (groups [][]*Row) {
	of := map[string][]*Row{}
	var names []string
	for _, r := range s.rows(func(r *Row) bool { return r.Type == o.Type && r.Sequence > o.From.Sequence }) {
		if of[r.Sequence] == nil {
			names = append(names, r.Sequence)
		}
		of[r.Sequence] = append(of[r.Sequence], r)
	}
	slices.Sort(names)
	done.Next, done.Done = o.From, true
	n := 0
	for i, name := range names {
		if n += len(of[name]); n > store.OrphansChanged {
			done.Done = false
			if i > 0 {
				break
			}
		}
		groups = append(groups, of[name])
		done.Next.Sequence = name
	}
	return groups
}

// whatKeeps says what keeps rows from getting the other type: all of a sequence, or one.
func (s *Store) whatKeeps(group []*Row, o store.OrphanStep, now time.Time) (left store.OrphanLeft) {
	of := group[0].sequence()
	left = store.OrphanLeft{ID: group[0].ID, Sequence: of.name}
	long := len(group) > store.OrphansChanged
	for _, r := range group[:min(len(group), store.OrphansChanged+1)] {
		if r.State.Waiting() {
			left.Rows++
		}
		if left.Reason == "" {
			if left.Reason = s.whatKeepsRow(r, o); left.Reason != "" {
				left.ID = r.ID
			}
		}
	}
	switch {
	case left.Reason != "" || of.name == "":
	case long:
		left.Reason = store.OrphanLong
	case s.firstFailure(of) != 0 && !s.continues(of.typ):
		left.Reason = store.OrphanFailure
	case slices.ContainsFunc(s.turns.notes, func(n turnNote) bool { return n.of == of && n.until.After(now) }):
		left.Reason = store.OrphanRunning
	}
	return left
}

// whatKeepsRow says what keeps one row.
func (s *Store) whatKeepsRow(r *Row, o store.OrphanStep) store.OrphanWhy {
	needs := r.State == task.StateRollbackPending || r.EverStarted && s.rolledBack(r)
	as := *r
	as.Type, as.Policy = o.Into, 0
	switch {
	case r.State.Running():
		return store.OrphanRunning
	case s.kept[r.ID] > 0 && !o.Preview:
		return store.OrphanBusy
	case needs && !s.canBeRolledBack(&as):
		return store.OrphanNoRollback
	case r.Key != "" && s.keyed(&as) != nil:
		return store.OrphanKey
	}
	return ""
}

// moveRows gives rows the other type, and their followers with them.
func (s *Store) moveRows(rows []*Row, o store.OrphanStep) {
	was, _ := json.Marshal(o.Type)
	is, _ := json.Marshal(o.Into)
	locks, turns := map[string]bool{}, map[sequence]bool{}
	for _, r := range rows {
		if r.Lock != "" && !locks[r.Lock] {
			locks[r.Lock] = true
			s.lockNotes = append(s.lockNotes, lockNote{lock: r.Lock})
		}
		if !turns[r.sequence()] {
			turns[r.sequence()] = true
			s.noteTurn(r, time.Time{})
		}
		f := s.follow[r.typeAndKey()]
		delete(s.follow, r.typeAndKey())
		if r.Type = o.Into; r.Held == task.HoldSequence {
			r.Held = ""
		}
		if f != nil && r.Key != "" {
			f.Type = o.Into
			s.follow[r.typeAndKey()] = f
		}
		s.audit = append(s.audit, Audit{Who: o.By, Verb: "move", Task: r.ID, Reason: o.Reason, Answer: fmt.Sprintf("moved from %s to %s", was, is)})
	}
	s.audit = append(s.audit, Audit{Who: o.By, Verb: "move", Type: o.Type, Reason: o.Reason, Answer: fmt.Sprintf("moved %d to %s", len(rows), is)})
	s.notify(store.Due)
}
