package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// DeclareSchedules notes what a session declares.
func (s *Store) DeclareSchedules(ctx context.Context, session task.Session, list []store.ScheduleSpec) (known bool, err error) {
	names, hashes, specs := make([]string, len(list)), make([]string, len(list)), make([]string, len(list))
	for i, spec := range list {
		text, err := json.Marshal(spec)
		if err != nil {
			return false, fmt.Errorf("schedule %q: %w", spec.Name, err)
		}
		names[i], hashes[i], specs[i] = spec.Name, store.DeclarationHash(spec), string(text)
	}
	err = s.do(ctx, "declare schedules", func(ctx context.Context, conn *pgx.Conn) error {
		return s.change(ctx, conn, func(on querier) error {
			if len(list) > 0 {
				if err := exec(ctx, on, s.sql.PutDeclarations, arg("session", int64(session)),
					arg("names", names), arg("hashes", hashes), arg("specs", specs)); err != nil {
					return err
				}
			}
			return scanOne(ctx, on, []any{&known}, s.sql.DeclareSchedules, arg("session", int64(session)), arg("names", names),
				arg("hashes", hashes))
		})
	})
	return known && err == nil, err
}

// UnsettledSchedules returns names whose schedules are not what is declared.
func (s *Store) UnsettledSchedules(ctx context.Context, after string, limit int) (page store.UnsettledSchedules, err error) {
	err = s.do(ctx, "compare schedules with what is declared", func(ctx context.Context, conn *pgx.Conn) error {
		page = store.UnsettledSchedules{}
		var u store.UnsettledSchedule
		var numbers []int64
		var specs []string
		return forEach(ctx, conn, []any{&page.Now, &u.Name, &numbers, &specs, &u.Exists, &u.Source, &u.Task, &u.Declared, &u.Version,
			&u.Parked, &u.Due}, func() error {
			if u.Name == "" {
				return nil
			}
			one := u
			for i := range numbers {
				d := store.Declaration{Number: numbers[i]}
				if err := json.Unmarshal([]byte(specs[i]), &d.Spec); err != nil {
					return fmt.Errorf("declaration %d: %w", numbers[i], err)
				}
				one.Present = append(one.Present, d)
			}
			page.List = append(page.List, one)
			return nil
		}, s.sql.UnsettledSchedules, arg("after", storable(after)), arg("limit", int64(limit)))
	})
	page.Now = page.Now.UTC()
	return page, err
}

// SettleSchedules applies changes.
func (s *Store) SettleSchedules(ctx context.Context, list []store.ScheduleChange) (applied int, err error) {
	var added, numbers, versions []int64
	var names []string
	for _, c := range list {
		switch {
		case c.Exists:
			names, versions, numbers = append(names, c.Name), append(versions, c.Version), append(numbers, numberOf(c.To))
		case c.To != nil:
			added = append(added, c.To.Number)
		}
	}
	err = s.do(ctx, "settle schedules", func(ctx context.Context, conn *pgx.Conn) error {
		return s.change(ctx, conn, func(on querier) error {
			var inserted, changed int
			if len(added) > 0 {
				if err := scanOne(ctx, on, []any{&inserted}, s.sql.InsertDeclared, arg("numbers", added)); err != nil {
					return err
				}
			}
			if len(names) > 0 {
				if err := scanOne(ctx, on, []any{&changed}, s.sql.SettleSchedules, arg("names", names), arg("versions", versions),
					arg("numbers", numbers)); err != nil {
					return err
				}
			}
			applied = inserted + changed
			return nil
		})
	})
	return applied, err
}

// numberOf is the number of a declaration; 0: there is none.
func numberOf(d *store.Declaration) int64 {
	if d == nil {
		return 0
	}
	return d.Number
}

// WakeSchedules has schedules be looked at that are decided ahead of the clock.
func (s *Store) WakeSchedules(ctx context.Context) (woken int, err error) {
	err = s.do(ctx, "wake schedules", func(ctx context.Context, conn *pgx.Conn) error {
		return s.change(ctx, conn, func(on querier) error {
			return scanOne(ctx, on, []any{&woken}, s.sql.WakeSchedules, arg("tolerance", store.JumpTolerance.Microseconds()))
		})
	})
	return woken, err
}
