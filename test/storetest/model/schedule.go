package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

	Version  int64
	Created  time.Time
	Cursor   time.Time
	Queued   time.Time
	LastSlot time.Time
	LastTask task.ID // 0: none
	LastBy   string
	Missed   int64
	NextAt   time.Time // zero: never
	Paused   bool
	Parked   bool
	Invalid  string
}

// mayFire reports whether agents may fire it, at its time.
func (c *Schedule) mayFire() bool {
	return !c.NextAt.IsZero() && !c.Paused && !c.Parked && c.Invalid == ""
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
	if spec.Payload == nil {
		spec.Payload = json.RawMessage(`{}`)
	}
	s.schedules[spec.Name] = &Schedule{ScheduleSpec: spec, Version: 1, Created: now.Truncate(time.Millisecond), NextAt: now}
	return nil
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
	applied := make([]bool, len(list))
	for i := range list {
		if c := s.schedules[list[i].Name]; c != nil && c.Version == list[i].Version {
			c.Version++
			applied[i] = s.fire(c, &list[i], now)
		}
	}
	return applied, s.fail(afterSettle)
}

// fire applies a firing, and reports whether its rows were taken.
func (s *Store) fire(c *Schedule, f *store.Firing, now time.Time) bool {
	if f.Invalid != "" {
		c.Invalid, c.NextAt = f.Invalid, time.Time{}
		return true
	}
	rows := make([]*Row, len(f.Rows))
	for i, r := range f.Rows {
		row, err := makeRow(store.EnqueueRequest{
			Type: c.Task, Payload: withSlot(c.Payload, r.Slot), RunAt: r.RunAt, CreatedBy: "schedule:" + c.Name,
		}, now)
		if err != nil {
			c.Invalid, c.NextAt = err.Error(), time.Time{}
			return false
		}
		rows[i] = row
	}
	for i, row := range rows {
		s.add(row)
		c.LastSlot, c.LastTask, c.LastBy = f.Rows[i].Slot, row.ID, f.By
	}
	c.Cursor, c.Queued, c.NextAt = f.Cursor, f.Queued, f.NextAt
	c.Missed += int64(f.Missed)
	return true
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
		c.Parked = true
	} else {
		c.Paused = true
	}
}

// ShownSchedule returns a copy of a schedule.
func (s *Store) ShownSchedule(name string) Schedule {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.schedules[name]
}
