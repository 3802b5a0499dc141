package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// ListSchedules returns schedules by name.
func (s *Store) ListSchedules(ctx context.Context, f store.ScheduleFilter) (all store.ScheduleList, err error) {
	from, limit := f.From, store.PageSize(f.Limit)
	if f.Name != "" {
		from, limit = f.Name, 1
	}
	err = s.do(ctx, "list schedules", func(ctx context.Context, conn *pgx.Conn) error {
		all = store.ScheduleList{}
		var row scheduleRow
		var i store.ScheduleInfo
		var next, paused, parked *time.Time
		into := append([]any{&all.Now}, row.cells()...)
		into = append(into, &i.Source, &next, &i.LastBy, (*string)(&i.LastState), (*string)(&i.LastOutcome), &i.LastError,
			&i.MissedSlots, &paused, &i.PausedBy, &parked, &i.Invalid)
		return forEach(ctx, conn, into, func() error {
			if row.Name == "" || f.Name != "" && row.Name != f.Name {
				return nil
			}
			i.Schedule, i.NextAt, i.PausedAt, i.ParkedAt = row.seen(), utc(next), utc(paused), utc(parked)
			all.List = append(all.List, i)
			return nil
		}, s.sql.ListSchedules, arg("from", storable(from)), arg("limit", int64(limit)))
	})
	all.Now = all.Now.UTC()
	return all, err
}

// PauseSchedule pauses a schedule.
func (s *Store) PauseSchedule(ctx context.Context, name, by string) (changed bool, err error) {
	return s.changeSchedule(ctx, "pause", s.sql.PauseSchedule, name, by)
}

// ResumeSchedule resumes a schedule.
func (s *Store) ResumeSchedule(ctx context.Context, name, by string) (changed bool, err error) {
	return s.changeSchedule(ctx, "resume", s.sql.ResumeSchedule, name, by)
}

// RemoveSchedule deletes a schedule.
func (s *Store) RemoveSchedule(ctx context.Context, name, by string) error {
	changed, err := s.changeSchedule(ctx, "remove", s.sql.RemoveSchedule, name, by)
	if err == nil && !changed {
		err = fmt.Errorf("remove schedule %q: %w", name, store.ErrNoSchedule)
	}
	return err
}

func (s *Store) changeSchedule(ctx context.Context, verb string, change *sqltext.Query, name, by string) (changed bool, err error) {
	what := fmt.Sprintf("%s schedule %q", verb, name)
	answer, err := s.operate(ctx, what, store.ErrNoSchedule, change, arg("name", storable(name)), arg("by", storable(by)))
	return err == nil && answer != "unchanged", err
}
