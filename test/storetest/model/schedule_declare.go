package model

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// declared is a declaration with all that was ever said of it.
type declared struct {
	store.Declaration
	hash string
	by   map[task.Session]bool // sessions that declare it
}

// DeclareSchedules notes what a session declares.
func (s *Store) DeclareSchedules(ctx context.Context, session task.Session, list []store.ScheduleSpec) (bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return false, err
	}
	if s.agents[session] == nil {
		return false, nil
	}
	for _, d := range s.declarations {
		maps.DeleteFunc(d.by, func(by task.Session, _ bool) bool { return by == session || s.agents[by] == nil })
	}
	for _, spec := range list {
		hash := store.DeclarationHash(spec)
		at := slices.IndexFunc(s.declarations, func(d *declared) bool { return d.Spec.Name == spec.Name && d.hash == hash })
		if at < 0 {
			at = len(s.declarations)
			s.declarations = append(s.declarations, &declared{
				Declaration: store.Declaration{Number: int64(at + 1), Spec: spec}, hash: hash, by: make(map[task.Session]bool),
			})
		}
		s.declarations[at].by[session] = true
	}
	return true, s.fail(afterSettle)
}

// UnsettledSchedules returns names whose schedules are not what is declared.
func (s *Store) UnsettledSchedules(ctx context.Context, after string, limit int) (store.UnsettledSchedules, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.UnsettledSchedules{}, err
	}
	defer s.mu.Unlock()
	all := make(map[string]*store.UnsettledSchedule)
	for _, d := range s.declarations {
		if !s.inForce(d, now) {
			continue
		}
		u := all[d.Spec.Name]
		if u == nil {
			u = &store.UnsettledSchedule{Name: d.Spec.Name}
			all[d.Spec.Name] = u
		}
		u.Present = append(u.Present, d.Declaration)
	}
	for name, c := range s.schedules {
		u := all[name]
		if u == nil {
			u = &store.UnsettledSchedule{Name: name}
			all[name] = u
		}
		u.Exists, u.Source, u.Task, u.Declared, u.Version = true, store.SourceSQL, c.Task, c.Declared, c.Version
		if c.Declared != 0 {
			u.Source = store.SourceHCL
		}
		u.Parked, u.Due = !c.ParkedAt.IsZero(), c.mayFire() && !c.NextAt.After(now)
	}
	page := store.UnsettledSchedules{Now: now}
	for _, u := range slices.SortedFunc(maps.Values(all), func(a, b *store.UnsettledSchedule) int { return cmp.Compare(a.Name, b.Name) }) {
		if u.Name > after && unsettled(u) && len(page.List) < limit {
			page.List = append(page.List, *u)
		}
	}
	return page, nil
}

// inForce reports whether a present agent has a declaration.
func (s *Store) inForce(d *declared, now time.Time) bool {
	for by := range d.by {
		if s.agents[by] != nil && s.agents[by].PresentUntil.After(now) {
			return true
		}
	}
	return false
}

// declaredNow reports whether a present agent declares a schedule.
func (s *Store) declaredNow(c *Schedule, now time.Time) bool {
	return c.Declared != 0 && slices.ContainsFunc(s.declarations, func(d *declared) bool {
		return d.Spec.Name == c.Name && d.Spec.Task == c.Task && s.inForce(d, now)
	})
}

func unsettled(u *store.UnsettledSchedule) bool {
	n := len(u.Present)
	if n == 0 {
		return u.Source == store.SourceHCL && !u.Parked
	}
	return !u.Exists || u.Source == store.SourceSQL || u.Parked || u.Declared != u.Present[n-1].Number ||
		slices.ContainsFunc(u.Present, func(d store.Declaration) bool { return d.Spec.Task != u.Present[0].Spec.Task })
}

// SettleSchedules applies changes.
func (s *Store) SettleSchedules(ctx context.Context, list []store.ScheduleChange) (applied int, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return 0, err
	}
	for i := range list {
		if s.settleSchedule(&list[i], now.Truncate(time.Millisecond)) {
			applied++
		}
	}
	return applied, s.fail(afterSettle)
}

func (s *Store) settleSchedule(change *store.ScheduleChange, now time.Time) bool {
	c := s.schedules[change.Name]
	switch {
	case !change.Exists && c == nil && change.To != nil:
		c = newSchedule(filled(change.To.Spec), now)
		c.Declared = change.To.Number
		s.schedules[change.Name] = c
		return true
	case !change.Exists || c == nil || c.Version != change.Version || c.Declared == 0:
		return false
	case change.To == nil:
		c.ParkedAt = now
		c.Version++
	case c.Declared == change.To.Number:
		if c.ParkedAt = (time.Time{}); c.Invalid == "" {
			c.NextAt = now
		}
		c.Version++
	default:
		c.change(change.To.Spec, now)
		c.Declared, c.ParkedAt = change.To.Number, time.Time{}
	}
	return true
}

// filled has a payload, as the table has.
func filled(spec store.ScheduleSpec) store.ScheduleSpec {
	if spec.Payload == nil {
		spec.Payload = []byte(`{}`)
	}
	return spec
}

// WakeSchedules has schedules be looked at that are decided ahead of the clock.
func (s *Store) WakeSchedules(ctx context.Context) (woken int, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return 0, err
	}
	for _, c := range s.schedules {
		if c.mayFire() && c.NextAt.After(now) && c.Cursor.After(now.Add(store.JumpTolerance)) && !c.LastSlot.After(now) {
			c.NextAt = now.Truncate(time.Millisecond)
			c.Version++
			woken++
		}
	}
	return woken, s.fail(afterSettle)
}
