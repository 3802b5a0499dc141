package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// DueSchedules returns at most limit schedules that are due, and when the next one is. It does not wait for writers.
func (s *Store) DueSchedules(ctx context.Context, limit int) (due store.DueSchedules, err error) {
	err = s.view(ctx, "look for due schedules", func(t *snapshot) error {
		due = store.DueSchedules{Now: s.now()}
		now := arg("now", stamp(due.Now))
		err := t.query(func(r *sql.Rows) error { return r.Scan(timeOf{&due.NextAt}) }, s.sql.NextSchedule, now)
		if err != nil {
			return err
		}
		return t.query(func(r *sql.Rows) error {
			one, err := scanSchedule(r)
			due.List = append(due.List, one)
			return err
		}, s.sql.DueSchedules, now, arg("limit", limit))
	})
	return due, err
}

func scanSchedule(r *sql.Rows) (s store.Schedule, err error) {
	err = r.Scan(scheduleCells(&s)...)
	return s, err
}

func scheduleCells(s *store.Schedule) []any {
	return []any{textOf[string]{&s.Name}, textOf[string]{&s.Task}, textOf[string]{&s.Cron}, textOf[string]{&s.Every},
		textOf[string]{&s.After}, textOf[string]{&s.Timezone}, jsonOf{&s.Payload}, textOf[string]{&s.Jitter}, textOf[string]{&s.From},
		textOf[string]{&s.Until}, textOf[string]{&s.Missed}, textOf[string]{&s.CatchUp}, textOf[string]{&s.Overlap}, &s.Version,
		timeOf{&s.Created}, timeOf{&s.Cursor}, timeOf{&s.Queued}, timeOf{&s.LastSlot}, numberOf[task.ID]{&s.LastTask},
		timeOf{&s.LastAt}, truthOf{&s.LastLive}, timeOf{&s.LastEnd}}
}

// ApplyFirings applies firings, all in one transaction.
func (s *Store) ApplyFirings(ctx context.Context, list []store.Firing) (applied []bool, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	err = s.change(ctx, "fire schedules", func(t *tx) error {
		applied = make([]bool, len(list))
		f := &firing{tx: t, list: list, last: map[string]task.ID{}, invalid: map[int]string{}}
		places, err := f.seen(store.FirstOfEach(list))
		if err != nil {
			return err
		}
		if err := f.insert(places); err != nil {
			return err
		}
		return f.move(places, applied)
	})
	if err != nil {
		return nil, err
	}
	return applied, nil
}

// firing is what a call of ApplyFirings does, in its transaction.
type firing struct {
	*tx
	list    []store.Firing
	last    map[string]task.ID // the newest row of each schedule
	invalid map[int]string     // why the store refuses the rows of a firing, by its place
}

// seen returns those of the places in the list whose schedules have the version that was seen.
func (f *firing) seen(places []int) (found []int, err error) {
	rows := list(places, func(i *int) []any { return []any{f.list[*i].Name, f.list[*i].Version} })
	err = f.query(func(r *sql.Rows) error {
		var n int
		err := r.Scan(&n)
		found = append(found, places[n])
		return err
	}, f.sql.FiringsSeen, arg("list", rows))
	return found, err
}

// insert inserts the rows of firings. Where one is refused, none is inserted, and each half is tried.
func (f *firing) insert(places []int) error {
	var rows [][]any
	for _, i := range places {
		one := &f.list[i]
		for _, r := range one.Rows {
			if one.Invalid == "" {
				rows = append(rows, []any{one.Name, store.SlotText(r.Slot), stamp(r.RunAt)})
			}
		}
	}
	if len(rows) == 0 {
		return nil
	}
	last := map[string]task.ID{}
	err := f.query(func(r *sql.Rows) error {
		var id task.ID
		var name string
		err := r.Scan(&id, &name)
		last[name] = max(id, last[name])
		return err
	}, f.sql.InsertFirings, arg("rows", list(rows, func(row *[]any) []any { return *row })), arg("now", stamp(f.now)))
	if err == nil {
		maps.Copy(f.last, last)
		return nil
	}
	input := refused(err)
	switch {
	case input == nil:
		return err
	case len(places) == 1 && f.list[places[0]].Aside != "":
		return input
	case len(places) == 1:
		f.invalid[places[0]] = input.Text
		return nil
	}
	middle := len(places) / 2
	if err := f.insert(places[:middle]); err != nil {
		return err
	}
	return f.insert(places[middle:])
}

// move moves the schedules on, or marks them invalid, and notes what was inserted beside their course.
func (f *firing) move(places []int, applied []bool) error {
	var moves, marks, notes [][]any
	for _, i := range places {
		one := &f.list[i]
		if reason, ok := f.invalid[i]; ok {
			marks = append(marks, []any{one.Name, reason})
			continue
		}
		applied[i] = true
		if one.Aside != "" {
			if n := len(one.Rows); n > 0 {
				notes = append(notes, []any{one.By, one.Aside, one.Name, store.Inserted(n)})
			}
			continue
		}
		if one.Invalid != "" {
			marks = append(marks, []any{one.Name, one.Invalid})
			continue
		}
		move := []any{one.Name, stampOrNull(one.Cursor), stampOrNull(one.Queued), one.Missed, stampOrNull(one.NextAt), nil, nil, nil}
		if n := len(one.Rows); n > 0 {
			move[5], move[6], move[7] = stamp(one.Rows[n-1].Slot), f.last[one.Name], one.By
		}
		moves = append(moves, move)
	}
	for _, w := range []struct {
		query *sqltext.Query
		rows  [][]any
	}{{f.sql.MoveSchedules, moves}, {f.sql.MarkInvalid, marks}, {f.sql.NoteAside, notes}} {
		if len(w.rows) == 0 {
			continue
		}
		if _, err := f.exec(w.query, arg("list", list(w.rows, func(row *[]any) []any { return *row }))); err != nil {
			return err
		}
	}
	return nil
}

// stampOrNull writes a time as it stands in the file; NULL for zero.
func stampOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return stamp(t)
}
