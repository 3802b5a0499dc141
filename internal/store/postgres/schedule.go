package postgres

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// DueSchedules returns at most limit schedules that are due, and when the next one is.
func (s *Store) DueSchedules(ctx context.Context, limit int) (due store.DueSchedules, err error) {
	err = s.do(ctx, "look for due schedules", func(ctx context.Context, conn *pgx.Conn) error {
		due = store.DueSchedules{}
		var row scheduleRow
		var next *time.Time
		err := forEach(ctx, conn, append([]any{&due.Now, &next}, row.cells()...), func() error {
			if row.Name != "" {
				due.List = append(due.List, row.seen())
			}
			return nil
		}, s.sql.DueSchedules, arg("limit", int64(limit)))
		due.Now, due.NextAt = due.Now.UTC(), utc(next)
		return err
	})
	return due, err
}

// scheduleRow is where a row with a schedule and its last task is read into.
type scheduleRow struct {
	store.Schedule

	created, cursor, queued, slot, inserted, ended *time.Time
}

func (r *scheduleRow) cells() []any {
	return []any{
		&r.Name, &r.Task, &r.Cron, &r.Every, &r.After, &r.Timezone, (*[]byte)(&r.Payload), &r.Jitter, &r.From, &r.Until, &r.Missed,
		&r.CatchUp, &r.Overlap, &r.Version, &r.created, &r.cursor, &r.queued, &r.slot, (*int64)(&r.LastTask), &r.inserted,
		&r.LastLive, &r.ended,
	}
}

func (r *scheduleRow) seen() store.Schedule {
	one := r.Schedule
	one.Created, one.Cursor, one.Queued = utc(r.created), utc(r.cursor), utc(r.queued)
	one.LastSlot, one.LastAt, one.LastEnd = utc(r.slot), utc(r.inserted), utc(r.ended)
	return one
}

// utc returns a time that may be NULL; zero: it is.
func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// ApplyFirings applies firings, all in one transaction: by one statement, or, where the store refuses a row, in halves, until
// those firings are found that it refuses.
func (s *Store) ApplyFirings(ctx context.Context, list []store.Firing) (applied []bool, err error) {
	applied = make([]bool, len(list))
	if len(list) == 0 {
		return applied, nil
	}
	places := store.FirstOfEach(list)
	err = s.do(ctx, "fire schedules", func(ctx context.Context, conn *pgx.Conn) error {
		return s.change(ctx, conn, func(on querier) error { return s.fire(ctx, on, list, places, applied) })
	})
	if err != nil && refusesRow(err) {
		err = s.do(ctx, "fire schedules in parts", func(ctx context.Context, conn *pgx.Conn) error {
			clear(applied)
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return s.fireHalves(ctx, tx, list, places, applied) })
		})
	}
	if err != nil {
		return nil, err
	}
	return applied, nil
}

// refusesRow reports whether the store does not take what was to be inserted: a constraint, or a trigger of its owner's.
func refusesRow(err error) bool {
	const codeRaised = "P0001" // raise_exception
	var input *store.InputError
	return errors.As(inputError(err), &input) || code(err) == codeRaised || strings.HasPrefix(code(err), "23")
}

// fireHalves fires what is at the places in a list. Where that is refused it is undone, and each half is tried; a single
// firing is marked invalid.
func (s *Store) fireHalves(ctx context.Context, tx pgx.Tx, list []store.Firing, at []int, applied []bool) error {
	if len(at) == 0 {
		return nil
	}
	err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { return s.fire(ctx, inner, list, at, applied) })
	switch {
	case err == nil || !refusesRow(err):
		return err
	case len(at) == 1 && list[at[0]].Aside != "":
		return &store.InputError{Text: refusal(err)}
	case len(at) == 1:
		f := &list[at[0]]
		refused := []store.Firing{{Name: f.Name, Version: f.Version, Invalid: refusal(err)}}
		return s.fire(ctx, tx, refused, []int{0}, make([]bool, 1))
	}
	middle := len(at) / 2
	if err := s.fireHalves(ctx, tx, list, at[:middle], applied); err != nil {
		return err
	}
	return s.fireHalves(ctx, tx, list, at[middle:], applied)
}

// refusal returns why the store refuses a row, in its words.
func refusal(err error) string {
	var input *store.InputError
	var e *pgconn.PgError
	switch {
	case errors.As(inputError(err), &input):
		return input.Text
	case errors.As(err, &e):
		return e.Message
	}
	return err.Error()
}

// fire applies what is at the places in a list by one statement.
func (s *Store) fire(ctx context.Context, on querier, list []store.Firing, at []int, applied []bool) error {
	place := make(map[string]int, len(at))
	var c firingColumns
	for _, i := range at {
		c.add(&list[i])
		place[list[i].Name] = i
	}
	rows, err := query(ctx, on, s.sql.ApplyFirings, c.args()...)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		applied[place[name]] = true
	}
	return nil
}

// firingColumns are firings, and the rows of all of them, column by column.
type firingColumns struct {
	names, by             []string
	invalid, aside        []*string
	versions, missed      []int64
	cursors, queued, next []*time.Time
	first, last           []int32 // of its rows, counted from 1; first is last + 1 where it has none
	slots, runAt          []time.Time
	slotTexts             []string
}

func (c *firingColumns) add(f *store.Firing) {
	var invalid, aside *string
	c.first = append(c.first, int32(len(c.slots)+1))
	if f.Invalid != "" {
		invalid = &f.Invalid
	} else {
		for _, r := range f.Rows {
			c.slots, c.runAt = append(c.slots, r.Slot), append(c.runAt, r.RunAt)
			c.slotTexts = append(c.slotTexts, store.SlotText(r.Slot))
		}
	}
	if f.Aside != "" {
		aside = (*string)(&f.Aside)
	}
	c.last = append(c.last, int32(len(c.slots)))
	c.names, c.by, c.invalid = append(c.names, f.Name), append(c.by, f.By), append(c.invalid, invalid)
	c.versions, c.missed = append(c.versions, f.Version), append(c.missed, int64(f.Missed))
	c.cursors, c.queued = append(c.cursors, timeOrNull(f.Cursor)), append(c.queued, timeOrNull(f.Queued))
	c.next, c.aside = append(c.next, timeOrNull(f.NextAt)), append(c.aside, aside)
}

// timeOrNull is the time, or NULL for zero.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (c *firingColumns) args() []sqltext.Arg {
	return []sqltext.Arg{
		arg("names", c.names), arg("versions", c.versions), arg("cursors", c.cursors), arg("queued", c.queued),
		arg("missed", c.missed), arg("next", c.next), arg("by", c.by), arg("invalid", c.invalid), arg("first", c.first),
		arg("last", c.last), arg("slot_texts", c.slotTexts), arg("run_at", c.runAt), arg("slots", c.slots), arg("aside", c.aside),
	}
}
