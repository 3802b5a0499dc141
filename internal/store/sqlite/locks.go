package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// takeLocks gives each free lock to the first of the rows with it, which a claim has found, in order, and holds the others back. It
// returns the rows that may start, and how many may not.
func (t *tx) takeLocks(rows []task.Task) (start []task.Task, held int, err error) {
	if !slices.ContainsFunc(rows, func(r task.Task) bool { return r.Lock != "" }) {
		return rows, 0, nil
	}
	given := map[string]bool{}
	var back []task.ID
	start = rows[:0]
	for i := range rows {
		r := rows[i]
		if r.Lock == "" {
			start = append(start, r)
			continue
		}
		free, err := t.isFree(r.Lock)
		if err != nil {
			return nil, 0, err
		}
		if !free || given[r.Lock] {
			back = append(back, r.ID)
			continue
		}
		given[r.Lock] = true
		if _, err := t.exec(t.sql.TakeLock, arg("name", r.Lock), arg("id", int64(r.ID))); err != nil {
			return nil, 0, err
		}
		start = append(start, r)
	}
	if len(back) > 0 {
		_, err = t.exec(t.sql.HoldBack, arg("ids", jsonList(back)))
	}
	return start, len(back), err
}

// isFree reports whether no row holds a lock.
func (t *tx) isFree(name string) (free bool, err error) {
	err = t.row([]any{&free}, t.sql.LockStanding, arg("name", name), arg("now", stamp(t.now)))
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return free, err
}

// noteLocks notes which locks the rows that were settled have left. They are in the hot table still.
func (t *tx) noteLocks(applied []*store.Settlement) error {
	if len(applied) == 0 {
		return nil
	}
	held := false
	if err := t.row([]any{&held}, t.sql.AnyLock); err != nil || !held {
		return err
	}
	ids := make([]task.ID, len(applied))
	for i, e := range applied {
		ids[i] = e.ID
	}
	_, err := t.exec(t.sql.NoteLocks, arg("ids", jsonList(ids)))
	return err
}

// Promote lets locks go that rows have left, and passes on the turns of sequences.
func (s *Store) Promote(ctx context.Context, most int) (p store.Promoted, err error) {
	some := false
	err = s.view(ctx, "look for locks to pass on", func(t *snapshot) error {
		p, some, err = lookForNotes(t.row, t.sql, s.now())
		return err
	})
	if err != nil || !some {
		return p, err
	}
	err = s.change(ctx, "promote", func(t *tx) error {
		p, err = t.passOn(most)
		return err
	})
	return p, err
}

// passOn is Promote in a transaction.
func (t *tx) passOn(most int) (store.Promoted, error) {
	p, some, err := lookForNotes(t.row, t.sql, t.now)
	if err != nil || !some {
		return p, err
	}
	var l, q store.Promoted
	if err := t.promote(most, &l); err != nil {
		return p, err
	}
	if err := t.promoteTurns(most, &q); err != nil {
		return p, err
	}
	next := p.Next
	p = l.With(q)
	p.Next = next
	return p, nil
}

// lookForNotes returns when the next note is due that is not yet, and whether some are.
func lookForNotes(row rowFunc, q *statements, now time.Time) (p store.Promoted, some bool, err error) {
	for _, of := range []struct{ due, next *sqltext.Query }{{q.AnyNote, q.NextNote}, {q.AnyTurnNote, q.NextTurnNote}} {
		at, due := "", false
		if err := row([]any{textOf[string]{&at}}, of.next, arg("now", stamp(now))); err != nil {
			return p, false, err
		}
		if then, err := parseTime(at); err == nil {
			p = p.With(store.Promoted{Next: max(then.Sub(now), 1)})
		}
		if err := row([]any{&due}, of.due, arg("now", stamp(now))); err != nil {
			return p, false, err
		}
		some = some || due
	}
	return p, some, nil
}

func (t *tx) promote(most int, p *store.Promoted) error {
	var notes []int64
	var names []string
	err := t.query(func(r *sql.Rows) error {
		var id int64
		var name string
		err := r.Scan(&id, &name)
		notes, names = append(notes, id), append(names, name)
		return err
	}, t.sql.DueNotes, arg("now", stamp(t.now)), arg("limit", most))
	if err != nil || len(notes) == 0 {
		return err
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if err := t.promoteLock(name, p); err != nil {
			return err
		}
	}
	p.Noted = len(notes)
	if _, err := t.exec(t.sql.DeleteNotes, arg("ids", jsonList(notes))); err != nil || p.Rows == 0 {
		return err
	}
	_, err = t.exec(t.sql.WakeForDue)
	return err
}

// promoteLock lets a lock go, unless it is held, and the first row of each class that waits for it become a candidate.
func (t *tx) promoteLock(name string, p *store.Promoted) error {
	free, err := t.isFree(name)
	if err != nil || !free {
		return err
	}
	before := p.Rows
	typ, region, back := "", "", true // before the first class
	for {
		err := t.row([]any{&typ, &region, &back}, t.sql.NextClass, arg("name", name), arg("type", typ), arg("region", region), arg("back", back))
		if errors.Is(err, sql.ErrNoRows) {
			if p.Rows > before {
				return nil // what is promoted is about to take the lock
			}
			_, err = t.exec(t.sql.FreeLock, arg("name", name))
			return err
		}
		if err != nil {
			return err
		}
		n, err := t.exec(t.sql.PromoteFirst, arg("name", name), arg("type", typ), arg("region", region), arg("back", back))
		if err != nil {
			return err
		}
		p.Rows += int(n)
	}
}
