package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// noteEnds notes which of the rows end that others wait for. They are in the hot table still.
func (t *tx) noteEnds(ids []task.ID) error {
	some := false
	if err := t.row([]any{&some}, t.sql.AnyDependent); err != nil || !some {
		return err
	}
	_, err := t.exec(t.sql.NoteEnds, arg("ids", jsonList(ids)))
	return err
}

// Unblock makes one step of the work on rows that wait for others.
func (s *Store) Unblock(ctx context.Context, most int) (u store.Unblocked, err error) {
	some := false
	err = s.view(ctx, "look for rows that wait for others", func(t *snapshot) error {
		u = store.Unblocked{}
		return t.row([]any{&some, &u.Waiting}, t.sql.Blocked)
	})
	if err != nil || !some {
		return u, err
	}
	err = s.change(ctx, "unblock", func(t *tx) error {
		u = store.Unblocked{}
		if err := t.reviveDependents(most, &u); err != nil {
			return err
		}
		if u.Worked == 0 { // a row that is decided about may wait for one that is revived
			if err := t.countEnds(most, &u); err != nil {
				return err
			}
			if err := t.decideDependents(most, &u); err != nil {
				return err
			}
		}
		return t.row([]any{&u.Waiting}, t.sql.AnyDependent)
	})
	return u, err
}

// countEnds counts down for rows that have ended. One that is live again is waited for as before.
func (t *tx) countEnds(most int, u *store.Unblocked) error {
	type note struct {
		number int64
		id     task.ID
		live   bool
	}
	var notes []note
	err := t.query(func(r *sql.Rows) error {
		var n note
		err := r.Scan(&n.number, &n.id, &n.live)
		notes = append(notes, n)
		return err
	}, t.sql.EndedNotes, arg("limit", most))
	if err != nil {
		return err
	}
	for _, n := range notes {
		counted := 0
		if n.live {
			_, err = t.exec(t.sql.Await, arg("ids", jsonList([]task.ID{n.id})))
		} else {
			counted, err = t.countEnd(n.id, most)
		}
		if err != nil {
			return err
		}
		u.Worked += counted
		if counted == most { // there may be more
			return nil
		}
		most -= counted
		if _, err := t.exec(t.sql.DeleteEndedNote, arg("number", n.number)); err != nil {
			return err
		}
		u.Worked++
	}
	return nil
}

// countEnd counts down for one row that has ended, in so many rows at most, and returns in how many.
func (t *tx) countEnd(id task.ID, most int) (int, error) {
	var waiting []task.ID
	err := t.query(scanIDs(&waiting), t.sql.WaitingFor, arg("id", int64(id)), arg("limit", most))
	if err != nil || len(waiting) == 0 {
		return 0, err
	}
	ids := arg("ids", jsonList(waiting))
	_, err = t.exec(t.sql.SetEnded, arg("id", int64(id)), ids)
	_, counted := t.exec(t.sql.CountDown, ids)
	return len(waiting), errors.Join(err, counted)
}

// decideDependents frees rows whose predecessors have all ended, cancels them, or has them wait for what is live again.
func (t *tx) decideDependents(most int, u *store.Unblocked) error {
	var ready []task.ID
	room := most
	err := t.query(func(r *sql.Rows) error {
		var id task.ID
		var n int
		if err := r.Scan(&id, &n); err != nil || room <= 0 {
			return err
		}
		ready, room = append(ready, id), room-n
		return nil
	}, t.sql.Ready, arg("limit", most))
	if err != nil {
		return err
	}
	for _, id := range ready {
		if err := t.decideDependent(id, u); err != nil {
			return err
		}
	}
	u.Worked += len(ready)
	if u.Freed == 0 {
		return nil
	}
	_, err = t.exec(t.sql.WakeForDue)
	return err
}

func (t *tx) decideDependent(id task.ID, u *store.Unblocked) error {
	of := arg("id", int64(id))
	var live []task.ID
	if err := t.query(scanIDs(&live), t.sql.LiveAgain, of); err != nil {
		return err
	}
	if len(live) > 0 {
		ids := arg("ids", jsonList(live))
		_, err := t.exec(t.sql.WaitAgain, of, ids)
		_, failed := t.exec(t.sql.Await, ids)
		_, followers := t.exec(t.sql.AwaitFollowers, ids)
		_, counted := t.exec(t.sql.Unfinish, of, arg("n", len(live)))
		return errors.Join(err, failed, followers, counted)
	}
	var bad task.ID
	var state task.State
	err := t.row([]any{&bad, &state}, t.sql.BadPredecessor, of)
	switch {
	case err == nil:
		u.Cancelled++
		_, err := t.exec(t.sql.CancelDependent, of)
		_, said := t.exec(t.sql.SayWhy, of, arg("error", store.WhyCancelled(bad, state)), arg("cause", int64(bad)))
		return errors.Join(err, said)
	case !errors.Is(err, sql.ErrNoRows):
		return err
	}
	u.Freed++
	_, err = t.exec(t.sql.FreeDependent, of, arg("now", stamp(t.now)))
	_, forgot := t.exec(t.sql.ForgetDependency, of)
	_, done := t.exec(t.sql.ForgetDependent, of)
	return errors.Join(err, forgot, done)
}

// Predecessors reads what a run of a live row gets to know of the tasks that it has waited for.
func (s *Store) Predecessors(ctx context.Context, id task.ID) (after task.After, err error) {
	err = s.view(ctx, "read what a task has waited for", func(t *snapshot) error {
		after = task.After{}
		ids, _, err := t.named(id)
		if err != nil {
			return err
		}
		bytes := int64(0)
		return t.query(func(r *sql.Rows) error {
			var p task.Predecessor
			err := r.Scan(&p.ID, &p.Type, &p.State, jsonOf{&p.Result})
			bytes += int64(len(p.Result))
			after.Add(p, bytes)
			return err
		}, t.sql.Predecessors, arg("ids", jsonList(ids[:min(len(ids), task.MostAfter+1)])))
	})
	return after, err
}
