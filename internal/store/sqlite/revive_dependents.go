package sqlite

import (
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// reviveDependents revives rows that were cancelled on account of others which have been retried: at most so many. Each leaves a note
// in turn if others were cancelled on account of it.
func (t *tx) reviveDependents(most int, u *store.Unblocked) error {
	type note struct {
		number    int64
		id, place task.ID
	}
	var notes []note
	err := t.query(func(r *sql.Rows) error {
		var n note
		err := r.Scan(&n.number, &n.id, &n.place)
		notes = append(notes, n)
		return err
	}, t.sql.RevivedNotes, arg("limit", most))
	if err != nil {
		return err
	}
	for _, n := range notes {
		var ids []task.ID
		err := t.query(scanIDs(&ids), t.sql.CancelledFor, arg("id", int64(n.id)), arg("place", int64(n.place)), arg("limit", most))
		if err != nil {
			return err
		}
		for _, id := range ids {
			if err := t.reviveDependent(id, u); err != nil {
				return err
			}
		}
		u.Worked++
		number := arg("number", n.number)
		if len(ids) == most { // there may be more
			_, err = t.exec(t.sql.MoveRevivedNote, number, arg("place", int64(ids[most-1])))
			return err
		}
		most -= len(ids)
		if _, err := t.exec(t.sql.DeleteRevivedNote, number); err != nil {
			return err
		}
	}
	return nil
}

// reviveDependent revives a row, unless its key is taken or its batch has ended or is being stopped.
func (t *tx) reviveDependent(id task.ID, u *store.Unblocked) error {
	of := arg("id", int64(id))
	var why string
	if err := t.row([]any{&why}, t.sql.RevivalBarred, of); err != nil {
		return err
	}
	if why != "" {
		_, err := t.exec(t.sql.SayNotRevived, of, arg("why", why))
		return err
	}
	u.Revived++
	_, err := t.exec(t.sql.ReviveDependent, of, arg("now", stamp(t.now)))
	return err
}
