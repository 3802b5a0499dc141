package v1

import (
	"context"

	"github.com/leasehold/leasehold/internal/ops"
)

// scheduleVerb changes a schedule.
type scheduleVerb func(ctx context.Context, s ops.Schedules, name, by string) (ops.ScheduleChanged, error)

func fireSchedule(ctx context.Context, s ops.Schedules, name, by string) (ops.ScheduleChanged, error) {
	fired, _, err := ops.FireSchedule(ctx, s, name, by)
	return fired, err
}

func pauseSchedule(ctx context.Context, s ops.Schedules, name, by string) (ops.ScheduleChanged, error) {
	return ops.PauseSchedule(ctx, s, name, true, by)
}

func resumeSchedule(ctx context.Context, s ops.Schedules, name, by string) (ops.ScheduleChanged, error) {
	return ops.PauseSchedule(ctx, s, name, false, by)
}

func (a *API) changeSchedule(verb scheduleVerb) handler {
	return func(c *call) (any, error) {
		s, name, by, err := c.named("name", nil)
		if err != nil {
			return nil, err
		}
		return noneOf(verb(c.ctx, s, name, by))
	}
}

// removeSchedule deletes a schedule. A DELETE has no body that all clients send: who requests it is in the query.
func (a *API) removeSchedule(c *call) (any, error) {
	name, err := c.text("name")
	if err != nil {
		return nil, err
	}
	by := c.query.text("requested_by")
	if by == "" {
		by = defaultBy
	}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	return noneOf(ops.RemoveSchedule(c.ctx, s, name, by))
}
