package model

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Bulk is a change of all tasks that match a filter. It looks at each task once, by rising ids, up to the highest that there was, of
// its batch if it is for one, when it was requested.
type Bulk struct {
	ID int64
	store.BulkRequest

	RequestedAt   time.Time
	After, UpTo   task.ID // the task that was looked at last, and the last one to look at
	Done, Refused int64
	Over          bool // it has looked at all, or was stopped
}

// BulkStepped is what a step of a bulk change has done.
type BulkStepped struct {
	ID            int64 // 0: there is none to carry on
	Done, Refused int64 // of the change, by all its steps
	Over          bool
}

// StartBulk starts a bulk change, and returns its id.
func (s *Store) StartBulk(ctx context.Context, r store.BulkRequest) (int64, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	b := &Bulk{ID: int64(len(s.bulks)) + 1, BulkRequest: r, RequestedAt: now}
	for _, row := range s.all() {
		if of := r.Filter.Batch; of == 0 || of == row.Batch {
			b.UpTo = max(b.UpTo, row.ID)
		}
	}
	s.bulks = append(s.bulks, b)
	s.notify(store.CancelNews)
	return b.ID, nil
}

// StopBulk stops a bulk change. What it has changed stays so.
func (s *Store) StopBulk(ctx context.Context, id int64, _ string) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	for _, b := range s.bulks {
		b.Over = b.Over || b.ID == id
	}
	return nil
}

// StepBulk carries on one bulk change, by rows tasks at most. They take turns, the oldest first.
func (s *Store) StepBulk(ctx context.Context, rows int) (BulkStepped, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return BulkStepped{}, err
	}
	defer s.mu.Unlock()
	over := func(b *Bulk) bool { return b.Over }
	list := slices.DeleteFunc(slices.Clone(s.bulks), over)
	if behind := slices.DeleteFunc(slices.Clone(list), func(b *Bulk) bool { return b.ID <= s.lastBulk }); len(behind) > 0 {
		list = behind
	}
	if len(list) == 0 {
		s.lastBulk = 0
		return BulkStepped{}, nil
	}
	b := list[0]
	s.lastBulk = b.ID
	s.carryOn(b, rows, now)
	return BulkStepped{ID: b.ID, Done: b.Done, Refused: b.Refused, Over: b.Over}, nil
}

// CarryOnOldestBulk carries on the oldest bulk change that is not over, whose turn it may not be.
func (s *Store) CarryOnOldestBulk(ctx context.Context, rows int) (BulkStepped, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return BulkStepped{}, err
	}
	defer s.mu.Unlock()
	for _, b := range s.bulks {
		if !b.Over {
			s.carryOn(b, rows, now)
			return BulkStepped{ID: b.ID, Done: b.Done, Refused: b.Refused, Over: b.Over}, nil
		}
	}
	return BulkStepped{}, nil
}

// carryOn looks at the next tasks of a bulk change, until it has found so many to change.
func (s *Store) carryOn(b *Bulk, rows int, now time.Time) {
	var found []*Row
	b.Over = true
	for _, r := range s.lookedAt(b) {
		if len(found) == rows {
			b.Over = false
			break
		}
		b.After = r.ID
		switch {
		case !s.matches(b, r):
		case b.Verb == verbRetry && r.FinishedAt.After(b.RequestedAt): // it has failed since
		case b.Verb == verbRetry && s.awaited(r), b.Verb == verbRollback && !s.canBeRolledBack(r):
			b.Refused++
		default:
			found = append(found, r)
		}
	}
	// Followers first: the tasks that they follow would free them. Those that are brought back come last.
	order := func(r *Row) int {
		switch {
		case s.follows(r) != 0:
			return 0
		case r.State.Waiting():
			return 1
		case r.State.Live():
			return 2
		}
		return 3
	}
	slices.SortStableFunc(found, func(a, b *Row) int { return cmp.Compare(order(a), order(b)) })
	for _, r := range found {
		became, ok := s.changeOne(b, r, now)
		if !ok {
			b.Refused++
			continue
		}
		b.Done++
		s.audit = append(s.audit, Audit{Who: b.By, Verb: b.Verb, Task: r.ID, Reason: b.Reason, Answer: string(became)})
	}
}

// all lists all tasks, in the order of their ids.
func (s *Store) all() []*Row {
	var list []*Row
	for _, table := range []map[task.ID]*Row{s.live, s.archive} {
		for _, r := range table {
			list = append(list, r)
		}
	}
	for _, r := range s.follow {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b *Row) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// lookedAt lists the tasks that a bulk change has still to look at. It looks at no finished ones where it can change none, at none that succeeded
// where it changes only others, and else at none of other types.
func (s *Store) lookedAt(b *Bulk) []*Row {
	states := b.Filter.StatesFor(b.Verb)
	succeeded := slices.Contains(states, task.StateSucceeded)
	return slices.DeleteFunc(s.all(), func(r *Row) bool {
		switch {
		case r.ID <= b.After || r.ID > b.UpTo:
			return true
		case r.State.Live():
			return !slices.ContainsFunc(states, task.State.Live)
		case !slices.ContainsFunc(states, task.State.Finished):
			return true
		case !succeeded:
			return r.State == task.StateSucceeded
		}
		return b.Filter.Type != "" && b.Filter.Type != r.Type
	})
}

// matches reports whether a bulk change is for a task.
func (s *Store) matches(b *Bulk, r *Row) bool {
	f := &b.Filter
	switch {
	case !slices.Contains(f.StatesFor(b.Verb), r.State), f.Type != "" && f.Type != r.Type, f.Batch != 0 && f.Batch != r.Batch:
		return false
	case r.State == task.StateRunning && b.Verb == verbCancel:
		return r.CancelRequested.IsZero()
	case r.State == task.StateRunning:
		return !s.awaited(r)
	case b.Verb == verbRollback && r.State.Finished():
		return r.EverStarted
	}
	return true
}

// awaited reports whether a task is to be rolled back once it has ended.
func (s *Store) awaited(r *Row) bool {
	return s.unfinished(func(o *Operation) bool { return o.Task == r.ID }) != nil
}

// changeOne does to a task what the change is for; false: that is refused.
func (s *Store) changeOne(b *Bulk, r *Row, now time.Time) (store.Became, bool) {
	of := s.batches[r.Batch]
	switch {
	case r.State == task.StateRunning && b.Verb == verbRollback:
		s.rollBackOnce(r, b.By, now)
		return store.Cancelling, true
	case r.State == task.StateRunning:
		s.requestCancel(r, b.By, now)
		return store.Cancelling, true
	case r.State.Live():
		s.callOff(r, b.By, now, b.Verb == verbRollback || s.rolledBack(r))
		return store.Became(r.State), true
	case b.Verb == verbRetry && of != nil && !of.ended() && of.Requested != "", s.keyTaken(r) != nil:
		return "", false
	}
	s.reopen(of)
	if b.Verb == verbRetry {
		s.revive(r, now)
	} else {
		s.rollBack(r, now)
	}
	return store.Became(r.State), true
}
