package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
		err := r.Scan(&l.Type, &l.Name, &l.Declared, &l.Most, &l.Rate, &l.Burst, &l.Tenant.Most, &l.Tenant.Rate, &l.Tenant.Burst)
		have = append(have, l)
		return err
	}, t.sql.LimitsInForce); err != nil {
		return err
	}
	wanted := store.LimitsInForce(all, have, t.now, calm)
	for _, l := range wanted {
		if slices.Contains(have, l) {
			continue
		}
		if _, err := t.exec(t.sql.PutLimit, arg("type", l.Type), arg("name", l.Name), arg("declared", l.Declared), arg("most", l.Most),
			arg("rate", l.Rate), arg("burst", l.Burst), arg("tenant_most", l.Tenant.Most), arg("tenant_rate", l.Tenant.Rate),
			arg("tenant_burst", l.Tenant.Burst)); err != nil {
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
	limits  map[string]string            // by type; "": none
	before  map[string]store.Room        // the claim, by limit
	left    map[string]int               // for rows that the claim has not found yet
	taken   map[string]int               // by the claim; what waits for its lock takes no place and no token
	rates   map[string]store.Bucket      // of limits with a rate
	each    map[string]store.TenantLimit // what bounds each tenant, by limit
	tenant  map[tenantOf]*tenantRoom
	waiting map[string]bool          // by type: rows of tenants that have no room are due, and fewer were found than are wanted
	next    map[string]time.Duration // by type, until a rate lets a row of one of these start
}

func newRooms() *rooms {
	return &rooms{
		limits: map[string]string{}, before: map[string]store.Room{}, left: map[string]int{}, taken: map[string]int{},
		rates: map[string]store.Bucket{}, each: map[string]store.TenantLimit{}, tenant: map[tenantOf]*tenantRoom{},
		waiting: map[string]bool{}, next: map[string]time.Duration{},
	}
}

// of returns the limit of a type and how many rows of it may be claimed; "" where it has none.
func (r *rooms) of(t *tx, typ string) (limit string, n int, err error) {
	limit, known := r.limits[typ]
	if known {
		return limit, r.left[limit], nil
	}
	var l store.LimitInForce
	err = t.row([]any{&l.Name, &l.Most, &l.Rate, &l.Burst, &l.Tenant.Most, &l.Tenant.Rate, &l.Tenant.Burst}, t.sql.LimitedType, arg("type", typ))
	if errors.Is(err, sql.ErrNoRows) {
		r.limits[typ] = ""
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	r.limits[typ] = l.Name
	if _, counted := r.left[l.Name]; !counted {
		if err := r.count(t, l); err != nil {
			return "", 0, err
		}
	}
	return l.Name, r.left[l.Name], nil
}

// count finds the room of a limit.
func (r *rooms) count(t *tx, l store.LimitInForce) error {
	room := store.Room{Limit: l.Name, Rows: math.MaxInt32}
	r.each[l.Name] = l.Tenant
	if l.Most == 0 && l.Tenant.Most > 0 {
		if err := t.freePlaces(l.Name); err != nil {
			return err
		}
	}
	if l.Most > 0 {
		running, err := t.countLimited(l.Name)
		if err != nil {
			return err
		}
		room.Rows = max(l.Most-running, 0)
	}
	if l.Rate > 0 {
		var b store.Bucket
		err := t.row([]any{&b.Tokens, timeOf{&b.At}}, t.sql.Bucket, arg("name", l.Name))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			b = store.FullBucket(l.Burst, t.now)
		case err != nil:
			return err
		}
		r.rates[l.Name] = b.Refilled(l.Rate, l.Burst, 0, t.now)
		room = room.Within(r.rates[l.Name], l.Rate, l.Burst)
	}
	r.before[l.Name], r.left[l.Name] = room, room.Rows
	return nil
}

// spend writes what the claim has left of the tokens.
func (r *rooms) spend(t *tx) error {
	for name, b := range r.rates {
		tokens := b.Tokens - float64(r.taken[name])
		if _, err := t.exec(t.sql.PutBucket, arg("name", name), arg("tokens", tokens), arg("counted_at", stamp(b.At))); err != nil {
			return err
		}
	}
	return r.spendTenants(t)
}

// freePlaces frees the places of a limit whose time is over.
func (t *tx) freePlaces(limit string) error {
	name, now := arg("name", limit), arg("now", stamp(t.now))
	if _, err := t.exec(t.sql.CutPlaces, name, now, arg("ahead", stamp(t.now.Add(time.Second)))); err != nil {
		return err
	}
	_, err := t.exec(t.sql.FreePlaces, name, now)
	return err
}

// countLimited returns how many places of a limit are taken.
func (t *tx) countLimited(limit string) (running int, err error) {
	if err := t.freePlaces(limit); err != nil {
		return 0, err
	}
	name := arg("name", limit)
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
			room := r.before[limit]
			room.Tenants, room.TenantNext = r.waiting[typ], r.next[typ]
			to[typ] = room
		}
	}
}
