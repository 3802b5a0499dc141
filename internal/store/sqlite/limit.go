package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// declareLimits notes what limits a session declares, and puts in force what follows from all declarations. calm is for how long the
// clock has not jumped as far as the session knows.
func (t *tx) declareLimits(session task.Session, declared []store.TypeLimit, calm time.Duration) error {
	if len(declared) == 0 {
		var anyLimit bool
		if err := t.row([]any{&anyLimit}, t.sql.AnyLimit); err != nil || !anyLimit {
			return err
		}
	}
	by, rows := arg("session", int64(session)), arg("list", list(declared, func(l *store.TypeLimit) []any {
		text, hash := l.Text()
		return []any{l.Name, hash, text}
	}))
	if _, err := t.exec(t.sql.PutLimitDeclarations, rows); err != nil {
		return err
	}
	if _, err := t.exec(t.sql.ForgetLimitDeclarers, by, rows); err != nil {
		return err
	}
	if _, err := t.exec(t.sql.PutLimitDeclarers, by, rows); err != nil {
		return err
	}
	return t.settleLimits(calm)
}

// settleLimits changes the limits that are not what follows from the declarations.
func (t *tx) settleLimits(calm time.Duration) error {
	var all []store.LimitDeclarer
	err := t.query(func(r *sql.Rows) error {
		var d store.LimitDeclarer
		var spec string
		if err := r.Scan(&d.Number, &d.Limit.Name, &spec, timeOf{&d.SeenAt}, timeOf{&d.PresentUntil}); err != nil {
			return err
		}
		if err := json.Unmarshal([]byte(spec), &d.Limit); err != nil {
			return fmt.Errorf("limit %s: %w", d.Limit.Name, err)
		}
		all = append(all, d)
		return nil
	}, t.sql.LimitDeclarers)
	if err != nil {
		return err
	}
	var have []store.LimitInForce
	if err := t.query(func(r *sql.Rows) error {
		var l store.LimitInForce
		err := r.Scan(&l.Type, &l.Name, &l.Declared, &l.Most)
		have = append(have, l)
		return err
	}, t.sql.LimitsInForce); err != nil {
		return err
	}
	wanted := store.LimitsInForce(all, t.now, calm)
	for _, l := range wanted {
		if slices.Contains(have, l) {
			continue
		}
		if _, err := t.exec(t.sql.PutLimit, arg("type", l.Type), arg("name", l.Name), arg("declared", l.Declared), arg("most", l.Most)); err != nil {
			return err
		}
		if _, err := t.exec(t.sql.LimitRunning, arg("name", l.Name), arg("type", l.Type)); err != nil {
			return err
		}
	}
	for _, l := range have {
		if slices.ContainsFunc(wanted, func(w store.LimitInForce) bool { return w.Type == l.Type }) {
			continue
		}
		if _, err := t.exec(t.sql.RemoveLimit, arg("type", l.Type)); err != nil {
			return err
		}
	}
	return nil
}

// rooms are the limits of the types of one claim, and how much room they have.
type rooms struct {
	limits map[string]string // by type; "": none
	before map[string]int    // the claim, by limit
	left   map[string]int
}

func newRooms() *rooms {
	return &rooms{limits: map[string]string{}, before: map[string]int{}, left: map[string]int{}}
}

// of returns the limit of a type and how many rows of it may be claimed; "" where it has none.
func (r *rooms) of(t *tx, typ string) (limit string, n int, err error) {
	limit, known := r.limits[typ]
	if known {
		return limit, r.left[limit], nil
	}
	most := 0
	err = t.row([]any{textOf[string]{&limit}, numberOf[int]{&most}}, t.sql.LimitedType, arg("type", typ))
	if errors.Is(err, sql.ErrNoRows) {
		r.limits[typ] = ""
		return "", 0, nil
	}
	if _, counted := r.left[limit]; err == nil && !counted {
		var running int
		running, err = t.countLimited(limit)
		r.before[limit] = max(most-running, 0)
		r.left[limit] = r.before[limit]
	}
	r.limits[typ] = limit
	return limit, r.left[limit], err
}

// countLimited returns how many places of a limit are taken.
func (t *tx) countLimited(limit string) (running int, err error) {
	name, now := arg("name", limit), arg("now", stamp(t.now))
	if _, err := t.exec(t.sql.CutPlaces, name, now, arg("ahead", stamp(t.now.Add(time.Second)))); err != nil {
		return 0, err
	}
	if _, err := t.exec(t.sql.FreePlaces, name, now); err != nil {
		return 0, err
	}
	var kept int
	if err := t.row([]any{&kept}, t.sql.CountPlaces, name); err != nil {
		return 0, err
	}
	err = t.row([]any{&running}, t.sql.CountLimited, name)
	return running + kept, err
}

// tell returns the room that there was before the claim, for each type that has a limit.
func (r *rooms) tell(to map[string]store.Room) {
	for typ, limit := range r.limits {
		if limit != "" && to != nil {
			to[typ] = store.Room{Limit: limit, Rows: r.before[limit]}
		}
	}
}
