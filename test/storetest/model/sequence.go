package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// sequence is a sequence of a row type.
type sequence struct{ typ, name string }

// turns is what the store knows of sequences.
type turns struct {
	heads        map[sequence]task.ID // whose turn it is: it is live, or has ended and was not followed yet
	failed       map[task.ID]bool     // finished rows whose failures are not resolved
	notes        []turnNote           // oldest first
	declarations []*declaredSequence  // by number, from 1
	rules        map[string]int       // the number of the declaration in force, by row type
}

// turnNote is a sequence that a row has left. What it ran may be at work until then; zero: it has ended.
type turnNote struct {
	of    sequence
	until time.Time
}

// declaredSequence is a declaration with all who declare it.
type declaredSequence struct {
	store.TypeSequence
	by map[task.Session]bool
}

func newTurns() turns {
	return turns{heads: map[sequence]task.ID{}, failed: map[task.ID]bool{}, rules: map[string]int{}}
}

func (r *Row) sequence() sequence { return sequence{r.Type, r.Sequence} }

// takeTurn reports whether it is the row's turn, and holds it back where it is not.
func (s *Store) takeTurn(r *Row, now time.Time) bool {
	if r.Sequence == "" {
		return true
	}
	if head, _ := s.chooseHead(r.sequence(), now); head != r.ID {
		r.Held = task.HoldSequence
		return false
	}
	return true
}

// chooseHead returns the row whose turn it is, and chooses it where the last head has ended, or waits for other rows. One that was held back
// becomes a candidate.
func (s *Store) chooseHead(of sequence, now time.Time) (head task.ID, freed int) {
	r := s.live[s.turns.heads[of]]
	if r == nil || r.sequence() != of || r.Held == task.HoldAfter {
		if slices.ContainsFunc(s.turns.notes, func(n turnNote) bool { return n.of == of && n.until.After(now) }) {
			return 0, 0
		}
		if r = s.next(of); r == nil {
			delete(s.turns.heads, of)
			return 0, 0
		}
		s.turns.heads[of] = r.ID
	}
	if r.Held != task.HoldSequence {
		return r.ID, 0
	}
	r.Held = ""
	return r.ID, 1
}

// next returns the row that is next: the last of those that are to be rolled back, or else the first; nil where there is none, or where a
// failure that comes before it blocks the sequence.
func (s *Store) next(of sequence) *Row {
	var first, back *Row
	for _, r := range s.rows(func(r *Row) bool { return r.sequence() == of }) {
		if r.State == task.StateRollbackPending {
			back = r
		}
		if first == nil {
			first = r
		}
	}
	if failed := s.firstFailure(of); back == nil && first != nil && failed != 0 && failed < first.ID && !s.continues(of.typ) {
		return nil
	}
	return cmp.Or(back, first)
}

// firstFailure returns the first failure of a sequence that is not resolved; 0: there is none.
func (s *Store) firstFailure(of sequence) (first task.ID) {
	for id := range s.turns.failed {
		if s.archive[id].sequence() == of && (first == 0 || id < first) {
			first = id
		}
	}
	return first
}

// continues reports whether failures block no sequence of a row type.
func (s *Store) continues(typ string) bool {
	n := s.turns.rules[typ]
	return n != 0 && s.turns.declarations[n-1].OnFailure == task.SequenceContinues
}

// leftSequence notes that a row was archived, and whether it has failed. What had succeeded, and was rolled back on request, has not.
func (s *Store) leftSequence(r *Row) {
	if r.Sequence == "" {
		return
	}
	s.noteTurn(r, r.LeaseEnd)
	switch r.State {
	case task.StateFailed, task.StateCancelled, task.StateRollbackFailed:
		s.turns.failed[r.ID] = true
	case task.StateRolledBack:
		if r.Cause != task.Succeeded {
			s.turns.failed[r.ID] = true
		}
	}
}

// noteTurn has the next promotion look at the row's sequence.
func (s *Store) noteTurn(r *Row, until time.Time) {
	if r.Sequence != "" {
		s.turns.notes = append(s.turns.notes, turnNote{r.sequence(), until})
	}
}

// promoteTurns passes on the turns of sequences whose heads have ended.
func (s *Store) promoteTurns(most int, now time.Time) (p store.Promoted) {
	for _, n := range s.turns.notes {
		if in := n.until.Sub(now); in > 0 && (p.Next == 0 || in < p.Next) {
			p.Next = in
		}
	}
	due := map[sequence]bool{}
	s.turns.notes = slices.DeleteFunc(s.turns.notes, func(n turnNote) bool {
		if n.until.After(now) || p.Noted == most {
			return false
		}
		p.Noted++
		due[n.of] = true
		return true
	})
	for of := range due {
		if s.continues(of.typ) {
			s.resolveAll(of)
		}
		_, freed := s.chooseHead(of, now)
		p.Rows += freed
	}
	return p
}

// resolveAll forgets the failures of a sequence, and reports whether there were any.
func (s *Store) resolveAll(of sequence) (some bool) {
	for id := s.firstFailure(of); id != 0; id = s.firstFailure(of) {
		delete(s.turns.failed, id)
		some = true
	}
	return some
}

// declareSequences notes what a session declares, and puts in force what follows from all declarations.
func (s *Store) declareSequences(session task.Session, list []store.TypeSequence, now time.Time) {
	t := &s.turns
	if len(list) == 0 && len(t.rules) == 0 {
		return
	}
	for _, d := range t.declarations {
		delete(d.by, session)
	}
	for _, one := range list {
		at := slices.IndexFunc(t.declarations, func(d *declaredSequence) bool { return d.TypeSequence == one })
		if at < 0 {
			at = len(t.declarations)
			t.declarations = append(t.declarations, &declaredSequence{one, map[task.Session]bool{}})
		}
		t.declarations[at].by[session] = true
	}
	isPresent := func(by task.Session) bool { a := s.agents[by]; return a != nil && a.PresentUntil.After(now) }
	wanted := map[string]int{}
	for i, d := range t.declarations {
		for by := range d.by {
			if isPresent(by) {
				wanted[d.Type] = i + 1
			}
		}
	}
	maps.Copy(t.rules, wanted)
	for by, a := range s.agents {
		for _, typ := range a.Types {
			if isPresent(by) && wanted[typ] == 0 {
				delete(t.rules, typ)
			}
		}
	}
	noted := map[sequence]bool{}
	for _, n := range t.notes {
		noted[n.of] = true
	}
	for id := range t.failed {
		if of := s.archive[id].sequence(); s.continues(of.typ) && !noted[of] {
			noted[of] = true
			t.notes = append(t.notes, turnNote{of: of})
		}
	}
}

// blocking returns the failure that blocks a sequence; 0: none does. known: there is such a sequence.
func (s *Store) blocking(of sequence) (failed task.ID, known bool) {
	rows := s.rows(func(r *Row) bool { return r.sequence() == of })
	failed = s.firstFailure(of)
	known = failed != 0 || len(rows) > 0
	if failed == 0 || s.continues(of.typ) {
		return 0, known
	}
	head := s.live[s.turns.heads[of]]
	if head != nil && head.sequence() == of || len(rows) > 0 && s.next(of) != nil {
		return 0, known
	}
	return failed, known
}

// resolve does something about the failure that blocks a sequence.
func (s *Store) resolve(ctx context.Context, of sequence, meant task.ID) (failed task.ID, err error) {
	if _, err := s.begin(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	failed, known := s.blocking(of)
	switch {
	case !known:
		return 0, fmt.Errorf("%q: %w", of.name, store.ErrNoSequence)
	case failed == 0:
		return 0, refused("no failure blocks the sequence %q of type %q", of.name, of.typ)
	case meant != 0 && meant != failed:
		return 0, refused("it is not task %d that blocks the sequence %q, but task %d", meant, of.name, failed)
	}
	return failed, nil
}

// SkipSequence resolves the failure that blocks a sequence, of that task if one is given.
func (s *Store) SkipSequence(ctx context.Context, typ, name string, id task.ID, by string) (task.ID, error) {
	of := sequence{typ, name}
	failed, err := s.resolve(ctx, of, id)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.turns.failed, failed)
	s.turns.notes = append(s.turns.notes, turnNote{of: of})
	s.audit = append(s.audit, Audit{Who: by, Verb: "skip", Task: failed, Answer: "skipped"})
	return failed, nil
}

// RetrySequence retries the failed row that blocks a sequence, that task if one is given.
func (s *Store) RetrySequence(ctx context.Context, typ, name string, id task.ID, by string) (task.ID, error) {
	failed, err := s.resolve(ctx, sequence{typ, name}, id)
	if err != nil {
		return 0, err
	}
	became, err := s.Retry(ctx, failed, by)
	if err == nil && became == store.Became(task.StateRollbackFailed) {
		err = refused("the rollback of task %d has failed: roll it back again, or skip it", failed)
	}
	if err != nil {
		return 0, err
	}
	return failed, nil
}

// CancelSequence cancels some of the waiting rows of a sequence and resolves its failures. 0: there were no more of them.
func (s *Store) CancelSequence(ctx context.Context, typ, name, by string) (n int, err error) {
	of := sequence{typ, name}
	if _, err := s.begin(ctx); err != nil {
		return 0, err
	}
	rows := s.rows(func(r *Row) bool {
		return r.sequence() == of && r.State.Waiting() && r.State.Phase() == task.Run && s.kept[r.ID] == 0
	})
	s.mu.Unlock()
	for _, r := range rows[:min(len(rows), 1000)] {
		if _, err := s.Cancel(ctx, r.ID, by); err != nil {
			return n, err
		}
		n++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resolveAll(of) {
		s.turns.notes = append(s.turns.notes, turnNote{of: of})
	}
	return n, nil
}

// SequenceRows returns the first rows of a sequence, so many at most.
func (s *Store) SequenceRows(ctx context.Context, typ, name string, most int) (ids []task.ID, err error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, r := range s.rows(func(r *Row) bool { return r.sequence() == sequence{typ, name} }) {
		if len(ids) < most {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}

// ListSequences returns sequences by type and name.
func (s *Store) ListSequences(ctx context.Context, f store.SequenceFilter) (all store.SequenceList, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return all, err
	}
	defer s.mu.Unlock()
	all.Now = now
	found := map[sequence]int{}
	for _, r := range s.live {
		found[r.sequence()]++
	}
	failures := map[sequence]int{}
	for id := range s.turns.failed {
		of := s.archive[id].sequence()
		found[of] += 0
		failures[of]++
	}
	for of, live := range found {
		if of.name == "" || f.Type != "" && of.typ != f.Type || f.Name != "" && of.name != f.Name ||
			cmp.Or(cmp.Compare(of.typ, f.FromType), cmp.Compare(of.name, f.FromName)) < 0 {
			continue
		}
		i := store.SequenceInfo{Type: of.typ, Sequence: of.name, State: store.SequenceWaiting, Failures: failures[of]}
		if failed, _ := s.blocking(of); failed != 0 {
			i.State, i.Task, i.Since = store.SequenceBlocked, failed, s.archive[failed].FinishedAt
		} else if live > 0 {
			head := s.live[s.turns.heads[of]]
			if head == nil || head.sequence() != of {
				head = s.next(of)
			}
			i.Task, i.Since = head.ID, head.RunAt
			if head.State.Running() {
				i.State, i.Since = store.SequenceRunning, head.ClaimedAt
			}
		} else {
			continue
		}
		all.List = append(all.List, i)
	}
	slices.SortFunc(all.List, func(a, b store.SequenceInfo) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Sequence, b.Sequence))
	})
	all.List = all.List[:min(len(all.List), store.PageSize(f.Limit))]
	for most, i := store.CountedOf(len(all.List)), 0; i < len(all.List); i++ {
		one := &all.List[i]
		one.Count(found[sequence{one.Type, one.Sequence}], one.Failures, most)
	}
	return all, nil
}
