package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Schedule is a row of the table schedule.
type Schedule struct {
	store.ScheduleSpec

	Declared int64 // 0: it was inserted by SQL
	Version  int64
	Created  time.Time
	Cursor   time.Time
	Queued   time.Time
	LastSlot time.Time
	LastTask task.ID // 0: none
	LastBy   string
	Missed   int64
	NextAt   time.Time // zero: never
	PausedAt time.Time
	PausedBy string
	ParkedAt time.Time
	Invalid  string
}

// mayFire reports whether agents may fire it, at its time.
func (c *Schedule) mayFire() bool {
	return !c.NextAt.IsZero() && c.PausedAt.IsZero() && c.ParkedAt.IsZero() && c.Invalid == ""
}

// AddSchedule is the plain INSERT of an application.
func (s *Store) AddSchedule(ctx context.Context, spec store.ScheduleSpec) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, err := schedule.New(spec); err != nil {
		return err
	}
	if len(spec.Payload) > store.DefaultMaxPayload {
		return &store.InputError{Text: "payload: it is larger than the bound on payloads"}
	}
	if spec.Payload == nil {
		spec.Payload = json.RawMessage(`{}`)
	}
	if s.schedules[spec.Name] != nil {
		return &store.InputError{Text: "a schedule has this name"}
	}
	s.schedules[spec.Name] = newSchedule(spec, now)
	return nil
}

// newSchedule is due at once. Its version is one that no schedule of that name has had.
func newSchedule(spec store.ScheduleSpec, now time.Time) *Schedule {
	return &Schedule{ScheduleSpec: spec, Version: now.UnixMicro() << 10, Created: now.Truncate(time.Millisecond), NextAt: now}
}

// UpsertSchedule is AddSchedule, or changes the schedule of that name.
func (s *Store) UpsertSchedule(ctx context.Context, spec store.ScheduleSpec) error {
	s.mu.Lock()
	there := s.schedules[spec.Name] != nil
	s.mu.Unlock()
	if there {
		return s.ChangeSchedule(ctx, spec)
	}
	return s.AddSchedule(ctx, spec)
}

// ChangeSchedule is an application's UPDATE of all that a schedule declares.
func (s *Store) ChangeSchedule(ctx context.Context, spec store.ScheduleSpec) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	c := s.schedules[spec.Name]
	if c == nil {
		return nil
	}
	if c.Declared != 0 {
		return &store.RefusedError{Text: "the schedule is declared in HCL: change it there"}
	}
	if _, err := schedule.New(spec); err != nil {
		return err
	}
	c.change(spec, now)
	return nil
}

// change has a schedule go on with another declaration: slots that it has in place of others count from now on.
func (c *Schedule) change(spec store.ScheduleSpec, now time.Time) {
	if spec.Payload == nil {
		spec.Payload = json.RawMessage(`{}`)
	}
	slots := func(s store.ScheduleSpec) [6]string {
		return [...]string{s.Cron, s.Every, s.After, s.Timezone, s.From, s.Until}
	}
	now = now.Truncate(time.Millisecond)
	if slots(spec) != slots(c.ScheduleSpec) && now.After(c.Cursor) {
		c.Cursor = now
	}
	c.ScheduleSpec, c.NextAt, c.Invalid = spec, now, ""
	c.Version++
}

// DeclareSchedule is what an agent does that declares a schedule in HCL.
func (s *Store) DeclareSchedule(ctx context.Context, spec store.ScheduleSpec, number int64) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	c := s.schedules[spec.Name]
	switch {
	case c == nil:
		if spec.Payload == nil {
			spec.Payload = json.RawMessage(`{}`)
		}
		c = newSchedule(spec, now)
		s.schedules[spec.Name] = c
	case c.Declared == number:
		return &store.RefusedError{Text: "the schedule is declared in HCL: change it there"}
	default:
		c.change(spec, now)
	}
	c.Declared = number
	return nil
}

// DeleteSchedule removes a schedule as applications do, who need not say who they are. One that does not exist is none.
func (s *Store) DeleteSchedule(ctx context.Context, name string) error {
	err := s.RemoveSchedule(ctx, name, "")
	if errors.Is(err, store.ErrNoSchedule) {
		return nil
	}
	return err
}

// DueSchedules lists the schedules that are due, and says when the next one is.
func (s *Store) DueSchedules(ctx context.Context, limit int) (store.DueSchedules, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.DueSchedules{}, err
	}
	defer s.mu.Unlock()
	due := store.DueSchedules{Now: now}
	var ready []*Schedule
	for c := range maps.Values(s.schedules) {
		switch {
		case !c.mayFire():
		case !c.NextAt.After(now):
			ready = append(ready, c)
		case due.NextAt.IsZero() || c.NextAt.Before(due.NextAt):
			due.NextAt = c.NextAt
		}
	}
	slices.SortFunc(ready, func(a, b *Schedule) int { return cmp.Or(a.NextAt.Compare(b.NextAt), cmp.Compare(a.Name, b.Name)) })
	for _, c := range ready[:min(limit, len(ready))] {
		due.List = append(due.List, s.scheduleSeen(c, now))
	}
	return due, nil
}

// scheduleSeen returns a schedule as a look finds it.
func (s *Store) scheduleSeen(c *Schedule, now time.Time) store.Schedule {
	seen := store.Schedule{
		ScheduleSpec: c.ScheduleSpec, Version: c.Version, Created: c.Created, Cursor: c.Cursor, Queued: c.Queued,
		LastSlot: c.LastSlot, LastTask: c.LastTask,
	}
	if r := s.live[c.LastTask]; r != nil {
		seen.LastAt, seen.LastLive = r.CreatedAt, true
	}
	if r := s.archive[c.LastTask]; r != nil {
		seen.LastAt, seen.LastLive = r.CreatedAt, r.LeaseEnd.After(now)
		if seen.LastEnd = r.FinishedAt; r.LeaseEnd.After(r.FinishedAt) {
			seen.LastEnd = r.LeaseEnd
		}
		if seen.LastLive {
			seen.LastEnd = time.Time{}
		}
	}
	return seen
}

// ApplyFirings applies each firing whose schedule is what was seen.
func (s *Store) ApplyFirings(ctx context.Context, list []store.Firing) ([]bool, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return nil, err
	}
	if err := s.addAside(list, now); err != nil {
		return nil, err
	}
	applied := make([]bool, len(list))
	for i := range list {
		c := s.schedules[list[i].Name]
		if c == nil || c.Version != list[i].Version {
			continue
		}
		if list[i].Aside != "" {
			applied[i] = true
			continue
		}
		c.Version++
		applied[i] = s.fire(c, &list[i], now)
	}
	return applied, s.fail(afterSettle)
}

// addAside inserts the rows that stand beside their schedules' courses, all or none.
func (s *Store) addAside(list []store.Firing, now time.Time) error {
	var all []*Row
	var notes []Audit
	for i := range list {
		if c := s.schedules[list[i].Name]; list[i].Aside != "" && c != nil && c.Version == list[i].Version {
			rows, err := c.rows(&list[i], now)
			if err != nil {
				return &store.InputError{Text: err.Error()}
			}
			all = append(all, rows...)
			if len(rows) > 0 {
				notes = append(notes, Audit{
					Who: list[i].By, Verb: string(list[i].Aside), Schedule: c.Name, Answer: store.Inserted(len(rows)),
				})
			}
		}
	}
	for _, row := range all {
		s.add(row)
	}
	s.audit = append(s.audit, notes...)
	return nil
}

// fire applies a firing, and reports whether its rows were taken.
func (s *Store) fire(c *Schedule, f *store.Firing, now time.Time) bool {
	if f.Invalid != "" {
		c.Invalid, c.NextAt = f.Invalid, time.Time{}
		return true
	}
	rows, err := c.rows(f, now)
	if err != nil {
		c.Invalid, c.NextAt = err.Error(), time.Time{}
		return false
	}
	for i, row := range rows {
		s.add(row)
		c.LastSlot, c.LastTask, c.LastBy = f.Rows[i].Slot, row.ID, f.By
	}
	c.Cursor, c.Queued, c.NextAt = f.Cursor, f.Queued, f.NextAt
	c.Missed += int64(f.Missed)
	return true
}

// rows returns the rows that a firing inserts, or why they are refused.
func (c *Schedule) rows(f *store.Firing, now time.Time) ([]*Row, error) {
	rows := make([]*Row, len(f.Rows))
	for i, r := range f.Rows {
		row, err := makeRow(store.EnqueueRequest{
			Type: c.Task, Payload: withSlot(c.Payload, r.Slot), RunAt: r.RunAt, CreatedBy: "schedule:" + c.Name,
		}, now)
		if err != nil {
			return nil, err
		}
		rows[i] = row
	}
	return rows, nil
}

// withSlot returns a payload with the slot that its task stands for.
func withSlot(payload json.RawMessage, slot time.Time) json.RawMessage {
	var of map[string]any
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	_ = d.Decode(&of) // it was looked at when the schedule was inserted
	of["slot"] = store.SlotText(slot)
	text, _ := json.Marshal(of) // of what was JSON
	return text
}

// HaltSchedule makes a schedule one that agents leave alone.
func (s *Store) HaltSchedule(name string, parked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.schedules[name]
	c.Version++
	if parked {
		c.ParkedAt = s.clock()
	} else {
		c.PausedAt = s.clock()
	}
}

// ShownSchedule returns a copy of a schedule.
func (s *Store) ShownSchedule(name string) Schedule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.schedules[name]
}
