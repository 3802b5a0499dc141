package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// DeclareSchedules notes what a session declares.
func (s *Store) DeclareSchedules(ctx context.Context, session task.Session, specs []store.ScheduleSpec) (known bool, err error) {
	rows := list(specs, func(spec *store.ScheduleSpec) []any {
		text, _ := json.Marshal(spec) // texts, and a payload that was JSON
		return []any{spec.Name, store.DeclarationHash(*spec), string(text)}
	})
	err = s.change(ctx, "declare schedules", func(t *tx) error {
		if err := t.row([]any{&known}, t.sql.IsSession, arg("session", int64(session))); err != nil || !known {
			return err
		}
		if _, err := t.exec(t.sql.PutDeclarations, arg("list", rows)); err != nil {
			return err
		}
		for _, q := range []*sqltext.Query{t.sql.ForgetDeclarers, t.sql.PutDeclarers} {
			if _, err := t.exec(q, arg("session", int64(session)), arg("list", rows)); err != nil {
				return err
			}
		}
		return nil
	})
	return known && err == nil, err
}

// UnsettledSchedules returns names whose schedules are not what is declared. It does not wait for writers.
func (s *Store) UnsettledSchedules(ctx context.Context, after string, limit int) (page store.UnsettledSchedules, err error) {
	err = s.view(ctx, "compare schedules with what is declared", func(t *snapshot) error {
		page = store.UnsettledSchedules{Now: s.now()}
		return t.query(func(r *sql.Rows) error {
			var u store.UnsettledSchedule
			var present []byte
			if err := r.Scan(&u.Name, &present, truthOf{&u.Exists}, textOf[string]{&u.Source}, textOf[string]{&u.Task},
				numberOf[int64]{&u.Declared}, numberOf[int64]{&u.Version}, truthOf{&u.Parked}, truthOf{&u.Due}); err != nil {
				return err
			}
			var pairs [][2]json.RawMessage
			if err := json.Unmarshal(present, &pairs); err != nil {
				return fmt.Errorf("declarations of %q: %w", u.Name, err)
			}
			for _, p := range pairs {
				var d store.Declaration
				if err := json.Unmarshal(p[0], &d.Number); err != nil {
					return fmt.Errorf("number of a declaration of %q: %w", u.Name, err)
				}
				if err := json.Unmarshal(p[1], &d.Spec); err != nil {
					return fmt.Errorf("declaration %d: %w", d.Number, err)
				}
				u.Present = append(u.Present, d)
			}
			slices.SortFunc(u.Present, func(a, b store.Declaration) int { return cmp.Compare(a.Number, b.Number) })
			page.List = append(page.List, u)
			return nil
		}, s.sql.UnsettledSchedules, arg("now", stamp(page.Now)), arg("after", after), arg("limit", limit))
	})
	return page, err
}

// SettleSchedules applies changes, all in one transaction.
func (s *Store) SettleSchedules(ctx context.Context, changes []store.ScheduleChange) (applied int, err error) {
	err = s.change(ctx, "settle schedules", func(t *tx) error {
		applied = 0
		for i := range changes {
			n, err := t.settleSchedule(&changes[i])
			if err != nil {
				return err
			}
			applied += int(n)
		}
		return nil
	})
	return applied, err
}

func (t *tx) settleSchedule(c *store.ScheduleChange) (changed int64, err error) {
	name, version, now := arg("name", c.Name), arg("version", c.Version), arg("now", stamp(t.now))
	switch {
	case !c.Exists && c.To == nil:
		return 0, nil
	case !c.Exists:
		return t.exec(t.sql.InsertDeclared, arg("number", c.To.Number))
	case c.To == nil:
		return t.exec(t.sql.ParkSchedule, name, version, now)
	}
	number := arg("number", c.To.Number)
	if changed, err = t.exec(t.sql.ChangeDeclared, name, version, number); err != nil || changed > 0 {
		return changed, err
	}
	return t.exec(t.sql.UnparkSchedule, name, version, number, now)
}

// WakeSchedules has schedules be looked at that are decided ahead of the clock. It writes only where there are some.
func (s *Store) WakeSchedules(ctx context.Context) (woken int, err error) {
	err = s.view(ctx, "look for schedules ahead of the clock", func(t *snapshot) error {
		now := s.now()
		return t.row([]any{&woken}, s.sql.AnyAhead, arg("now", stamp(now)), arg("ahead", stamp(now.Add(store.JumpTolerance))))
	})
	if err != nil || woken == 0 {
		return 0, err
	}
	err = s.change(ctx, "wake schedules", func(t *tx) error {
		n, err := t.exec(t.sql.WakeSchedules, arg("now", stamp(t.now)), arg("ahead", stamp(t.now.Add(store.JumpTolerance))))
		woken = int(n)
		return err
	})
	return woken, err
}
