package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Step carries on the oldest operation that can be.
func (s *Store) Step(ctx context.Context, rows int) (store.Stepped, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.Stepped{}, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return store.Stepped{}, err
	}
	var done store.Stepped
	for _, o := range s.operations {
		if o.Over {
			continue
		}
		done.Found = true
		step := &step{Store: s, Operation: o, left: rows, now: now}
		o.Over = step.carryOn()
		if changed := rows - step.left; changed > 0 || o.Over {
			o.Done += int64(changed)
			done.Rows, done.Ended = changed, o.Over
			if o.Over {
				done.Verb, done.Batch, done.Task, done.Done, done.Refused = o.Verb, o.Batch, o.Task, o.Done, o.Refused
			}
			break
		}
	}
	return done, s.fail(afterSettle)
}

// step is one step of an operation.
type step struct {
	*Store
	*Operation
	left int // tasks that it may still change
	now  time.Time
}

// carryOn does a part of what was asked for, and reports whether nothing is left to do.
func (s *step) carryOn() (over bool) {
	if s.Task != 0 {
		return s.one()
	}
	b := s.batches[s.Batch]
	switch s.Verb {
	case verbRetry:
		failed := slices.DeleteFunc(s.toRetry(b), func(r *Row) bool { return r.FinishedAt.After(s.RequestedAt) })
		return s.bring(failed, func(r *Row) { s.revive(r, s.now) })
	case verbCancel:
		return s.callOffAll(b)
	}
	if !s.callOffAll(b) {
		return false
	}
	return s.bring(s.toRollBack(b), func(r *Row) { s.rollBack(r, s.due(b, r)) })
}

// one carries on the rollback of one task that ran when it was asked for.
func (s *step) one() (over bool) {
	r := cmp.Or(s.live[s.Task], s.archive[s.Task])
	switch {
	case r == nil || r.State.Phase() == task.Rollback:
		return true
	case r.State == task.StateRunning:
		return false
	case r.State.Waiting():
		s.callOff(r, s.Who, s.now, s.canBeRolledBack(r))
		s.left--
		return true
	case !s.canRollBack(r):
		return true
	case s.keyTaken(r) != nil:
		s.Refused++
		return true
	}
	s.reopen(s.batches[r.Batch])
	s.rollBack(r, s.now)
	s.left--
	return true
}

// callOffAll cancels what waits of a batch and asks what runs to stop. It is over when nothing does either, and nothing
// can come.
func (s *step) callOffAll(b *Batch) (over bool) {
	by := fmt.Sprintf("batch %d", b.ID)
	if s.Who != "" {
		by += fmt.Sprintf(" (%s by %s)", s.Verb, s.Who)
	}
	left := false
	for _, r := range s.of(b.ID) {
		switch {
		case s.left == 0:
			return false
		case r.State == task.StateRunning:
			left = true
			if s.requestCancel(r, by, s.now) {
				s.left--
			}
		case r.State.Waiting() && r.State.Phase() == task.Run:
			s.callOff(r, by, s.now, s.rolledBack(r) || s.Verb == verbRollback && s.canBeRolledBack(r))
			s.left--
		}
	}
	return !left && b.open == 0
}

// bring takes tasks back out of the archive, in their order. It is over when none is left.
func (s *step) bring(rows []*Row, do func(*Row)) (over bool) {
	for _, r := range rows {
		switch {
		case s.seen[r.ID]:
			continue
		case s.left == 0:
			return false
		}
		s.seen[r.ID] = true
		if s.keyTaken(r) != nil {
			s.Refused++
			continue
		}
		do(r)
		s.left--
	}
	return true
}

// canRollBack reports whether a finished task did anything that can be rolled back, and was not.
func (s *Store) canRollBack(r *Row) bool {
	done := r.State == task.StateSucceeded || r.State == task.StateFailed || r.State == task.StateCancelled
	return done && r.EverStarted && s.canBeRolledBack(r)
}

// toRollBack lists the rows of a batch that can be rolled back, started newest first.
func (s *Store) toRollBack(b *Batch) []*Row {
	out := slices.DeleteFunc(s.of(b.ID), func(r *Row) bool { return !s.canRollBack(r) })
	slices.SortStableFunc(out, func(a, b *Row) int { return b.StartedAt.Compare(a.StartedAt) })
	return out
}

// due is when the rollback of a row is due: within the second before it was asked for, what started last first.
func (s *step) due(b *Batch, r *Row) time.Time {
	if !r.StartedAt.After(b.CreatedAt) {
		return s.RequestedAt
	}
	return s.RequestedAt.Add(-time.Duration(float64(time.Second) *
		float64(r.StartedAt.Sub(b.CreatedAt)) / float64(s.RequestedAt.Sub(b.CreatedAt))))
}
