package model

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// ListSchedules returns schedules by name.
func (s *Store) ListSchedules(ctx context.Context, f store.ScheduleFilter) (store.ScheduleList, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.ScheduleList{}, err
	}
	defer s.mu.Unlock()
	all := store.ScheduleList{Now: now}
	for _, c := range slices.SortedFunc(maps.Values(s.schedules), func(a, b *Schedule) int { return cmp.Compare(a.Name, b.Name) }) {
		if c.Name >= f.From && (f.Name == "" || c.Name == f.Name) && len(all.List) < store.PageSize(f.Limit) {
			all.List = append(all.List, s.scheduleInfo(c, now))
		}
	}
	return all, nil
}

func (s *Store) scheduleInfo(c *Schedule, now time.Time) store.ScheduleInfo {
	i := store.ScheduleInfo{
		Schedule: s.scheduleSeen(c, now), Source: store.SourceSQL, NextAt: c.NextAt, LastBy: c.LastBy, MissedSlots: c.Missed,
		PausedAt: c.PausedAt, PausedBy: c.PausedBy, ParkedAt: c.ParkedAt, Invalid: c.Invalid,
	}
	if c.Declared != 0 {
		i.Source = store.SourceHCL
	}
	if r := cmp.Or(s.live[c.LastTask], s.archive[c.LastTask]); r != nil {
		i.LastState, i.LastOutcome, i.LastError = r.State, r.Outcome, r.Error
	}
	return i
}

// PauseSchedule pauses a schedule.
func (s *Store) PauseSchedule(ctx context.Context, name, by string) (bool, error) {
	return s.changeSchedule(ctx, "pause", "paused", name, by, func(c *Schedule, now time.Time) (bool, error) {
		if !c.PausedAt.IsZero() {
			return false, nil
		}
		c.PausedAt, c.PausedBy = now.Truncate(time.Millisecond), by
		return true, nil
	})
}

// ResumeSchedule resumes a schedule.
func (s *Store) ResumeSchedule(ctx context.Context, name, by string) (bool, error) {
	return s.changeSchedule(ctx, "resume", "resumed", name, by, func(c *Schedule, now time.Time) (bool, error) {
		if c.PausedAt.IsZero() {
			return false, nil
		}
		c.PausedAt, c.PausedBy = time.Time{}, ""
		if c.Invalid == "" {
			c.NextAt = now.Truncate(time.Millisecond)
		}
		return true, nil
	})
}

// RemoveSchedule deletes a schedule.
func (s *Store) RemoveSchedule(ctx context.Context, name, by string) error {
	_, err := s.changeSchedule(ctx, "remove", "removed", name, by, func(c *Schedule, now time.Time) (bool, error) {
		if s.declaredNow(c, now) {
			return false, refused("schedule %q: an agent that is present declares it: take it out of its configuration first", name)
		}
		delete(s.schedules, name)
		return true, nil
	})
	return err
}

// changeSchedule does what an operator wants, and notes it if that changed anything.
func (s *Store) changeSchedule(
	ctx context.Context, verb, answer, name, by string, do func(c *Schedule, now time.Time) (changed bool, err error),
) (changed bool, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return false, err
	}
	c := s.schedules[name]
	if c == nil {
		return false, fmt.Errorf("%s schedule %q: %w", verb, name, store.ErrNoSchedule)
	}
	if changed, err = do(c, now); err != nil {
		return false, err
	}
	if changed {
		c.Version++
		s.audit = append(s.audit, Audit{Who: by, Verb: verb, Schedule: name, Answer: answer})
	}
	return changed, s.fail(afterSettle)
}
