package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// ListSchedules returns schedules by name. It does not wait for writers.
func (s *Store) ListSchedules(ctx context.Context, f store.ScheduleFilter) (all store.ScheduleList, err error) {
	from, limit := f.From, store.PageSize(f.Limit)
	if f.Name != "" {
		from, limit = f.Name, 1
	}
	err = s.view(ctx, "list schedules", func(t *snapshot) error {
		all = store.ScheduleList{Now: s.now()}
		return t.query(func(r *sql.Rows) error {
			var i store.ScheduleInfo
			err := r.Scan(append(scheduleCells(&i.Schedule), textOf[string]{&i.Source}, timeOf{&i.NextAt}, textOf[string]{&i.LastBy},
				textOf[task.State]{&i.LastState}, textOf[task.Verdict]{&i.LastOutcome}, textOf[string]{&i.LastError},
				numberOf[int64]{&i.MissedSlots}, timeOf{&i.PausedAt}, textOf[string]{&i.PausedBy}, timeOf{&i.ParkedAt},
				textOf[string]{&i.Invalid})...)
			if f.Name == "" || i.Name == f.Name {
				all.List = append(all.List, i)
			}
			return err
		}, s.sql.ListSchedules, arg("now", stamp(all.Now)), arg("from", from), arg("limit", limit))
	})
	return all, err
}

// PauseSchedule pauses a schedule.
func (s *Store) PauseSchedule(ctx context.Context, name, by string) (changed bool, err error) {
	return s.changeSchedule(ctx, "pause", s.sql.PauseSchedule, name, by, func(paused, _ bool) (bool, error) { return !paused, nil })
}

// ResumeSchedule resumes a schedule.
func (s *Store) ResumeSchedule(ctx context.Context, name, by string) (changed bool, err error) {
	return s.changeSchedule(ctx, "resume", s.sql.ResumeSchedule, name, by, func(paused, _ bool) (bool, error) { return paused, nil })
}

// RemoveSchedule deletes a schedule.
func (s *Store) RemoveSchedule(ctx context.Context, name, by string) error {
	_, err := s.changeSchedule(ctx, "remove", s.sql.RemoveSchedule, name, by, func(_, declared bool) (bool, error) {
		if declared {
			return false, refusal("schedule %q: an agent that is present declares it: take it out of its configuration first", name)
		}
		return true, nil
	})
	return err
}

// changeSchedule executes a statement where it is needed: for a schedule that is paused or not, and that a present agent declares or
// not.
func (s *Store) changeSchedule(
	ctx context.Context, verb string, change *sqltext.Query, name, by string, needed func(paused, declared bool) (bool, error),
) (changed bool, err error) {
	err = s.change(ctx, verb+" schedule", func(t *tx) error {
		var paused, declared bool
		err := t.row([]any{&paused, &declared}, t.sql.ScheduleStanding, arg("name", name), arg("now", stamp(t.now)))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%q: %w", name, store.ErrNoSchedule)
		}
		if err == nil {
			changed, err = needed(paused, declared)
		}
		if err == nil && changed {
			_, err = t.exec(change, arg("name", name), arg("by", by))
		}
		return err
	})
	return changed && err == nil, err
}
