package model

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// waits has a new row wait for those that it names. It can only name rows that were there before it, those of its transaction included.
func (s *Store) waits(row *Row, own ...*Row) error {
	for _, id := range row.After {
		if s.find(id) == nil && !slices.ContainsFunc(own, func(r *Row) bool { return r.ID == id }) {
			return &store.InputError{Text: "after names a task that does not exist"}
		}
	}
	if len(row.After) > 0 {
		row.Held = task.HoldAfter
	}
	return nil
}

// Unblock frees rows that wait for nothing any more, or cancels them.
func (s *Store) Unblock(ctx context.Context, most int) (u store.Unblocked, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return u, err
	}
	defer s.mu.Unlock()
	s.reviveDependents(most, now, &u)
	for again := u.Worked == 0; again; {
		again = false
		for _, r := range s.rows(func(r *Row) bool { return r.Held == task.HoldAfter }) {
			switch {
			case s.waitsOn(r):
				u.Waiting = true
			case s.kept[r.ID] > 0:
				u.Waiting, u.Missed = true, true
			default:
				u.Worked++
				again = s.decide(r, now, &u) || again
			}
		}
	}
	u.Waiting = u.Waiting || u.Revived > 0
	if u.Freed > 0 {
		s.notify(store.Due)
	}
	return u, nil
}

// waitsOn reports whether a row names one that has not ended.
func (s *Store) waitsOn(r *Row) bool {
	return slices.ContainsFunc(r.After, func(id task.ID) bool { p := s.find(id); return p != nil && !p.State.Finished() })
}

// decide frees a row, or cancels it, in which case others may wait for it.
func (s *Store) decide(r *Row, now time.Time, u *store.Unblocked) (ended bool) {
	due := now
	for _, id := range slices.Sorted(slices.Values(r.After)) {
		p, state := s.archive[id], task.State("")
		if p != nil {
			state, due = p.State, p.over(due)
		}
		if state != task.StateSucceeded && r.AfterIf != store.AfterIfAny {
			s.callOff(r, "", now, false)
			r.Error, r.CancelledFor = store.WhyCancelled(id, state), id
			s.cancelling[id] = true
			u.Cancelled++
			return true
		}
	}
	r.Held = ""
	if due.After(r.RunAt) {
		r.RunAt = due
	}
	u.Freed++
	return false
}

// Predecessors returns what a run of a live row gets to know of the tasks that it has waited for.
func (s *Store) Predecessors(ctx context.Context, id task.ID) (after task.After, err error) {
	if _, err := s.begin(ctx); err != nil {
		return after, err
	}
	defer s.mu.Unlock()
	row := s.live[id]
	if row == nil {
		return after, nil
	}
	bytes := 0
	for _, id := range slices.Compact(slices.Sorted(slices.Values(row.After))) {
		p := task.Predecessor{ID: id}
		if r := s.find(id); r != nil {
			p.Type, p.State, p.Result = r.Type, r.State, r.Result
		}
		bytes += len(p.Result)
		after.Add(p, int64(bytes))
	}
	return after, nil
}

// isNamed reports whether a row that waits names the task: retention keeps it then.
func (s *Store) isNamed(id task.ID) bool {
	return len(s.rows(func(r *Row) bool { return r.Held == task.HoldAfter && slices.Contains(r.After, id) })) > 0
}

// related is what a row waits for, and what waits for it; nil: nothing.
func (s *Store) related(r *Row) *store.Related {
	out := &store.Related{AfterIf: r.AfterIf, CancelledFor: r.CancelledFor}
	neighbour := func(kind int, id task.ID, total *int) {
		if *total++; *total > store.MostNeighbours {
			return
		}
		n := store.Neighbour{ID: id}
		if p := s.find(id); p != nil {
			n.Type, n.State = p.Type, p.State
		}
		out.Add(kind, n)
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(r.After))) {
		neighbour(store.IsAfter, id, &out.AfterTotal)
	}
	for _, id := range s.cancelledFor(r.ID) {
		neighbour(store.IsCancelled, id, &out.CancelledTotal)
	}
	for i := range out.Cancelled {
		if d := s.archive[out.Cancelled[i].ID]; d.Batch != r.Batch || s.keyed(d) != nil {
			out.Cancelled[i].Barred = s.barred(d)
		}
	}
	if !r.State.Finished() {
		for _, d := range s.rows(func(d *Row) bool { return d.Held == task.HoldAfter && slices.Contains(d.After, r.ID) }) {
			neighbour(store.IsWaiting, d.ID, &out.WaitingTotal)
		}
	}
	if out.AfterTotal > 0 && out.AfterIf == "" {
		out.AfterIf = store.AfterIfSucceeded
	}
	if out.None() {
		return nil
	}
	return out
}
