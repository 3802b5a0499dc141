package v1

import (
	"context"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/internal/api"
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

// defaultBackfill is how many slots a backfill has at most, where the request does not say it.
const defaultBackfill = 1000

// backfillSchedule inserts a task for each slot of a time.
func (a *API) backfillSchedule(c *call) (any, error) {
	name, err := c.text("name")
	if err != nil {
		return nil, err
	}
	var from, to string
	limit, dryRun := defaultBackfill, false
	by, err := c.change(members{"from": &from, "to": &to, "limit": &limit, "dry_run": &dryRun})
	if err != nil {
		return nil, err
	}
	if limit < 1 || limit > ops.MostBackfill {
		return nil, bad(http.StatusBadRequest, "limit %d: use 1 to %d", limit, ops.MostBackfill)
	}
	begin, err := timeOf("from", from)
	if err != nil {
		return nil, err
	}
	end, err := timeOf("to", to)
	if err != nil {
		return nil, err
	}
	if err := c.take(a.bounds.long, 1); err != nil {
		return nil, err
	}
	c.longer(longTimeout)
	i, _, err := ops.ReadSchedule(c.ctx, a.Store, name)
	if err != nil {
		return nil, err
	}
	slots, err := ops.BackfillSlots(i, begin, end, limit)
	if err != nil {
		return nil, err
	}
	changed := ops.ScheduleChanged{Schedule: name, Slots: slots, DryRun: dryRun}
	if !dryRun {
		changed.Inserted, err = ops.InsertBackfill(c.ctx, a.Store, name, slots, by)
	}
	return noneOf(changed, err)
}

// timeOf reads a member that must be a time.
func timeOf(member, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case text == "":
		return at, bad(http.StatusBadRequest, "%s is missing: use a time such as 2026-11-20T08:00:00Z", member)
	case err != nil:
		return at, bad(http.StatusBadRequest, "%s must be a time such as 2026-11-20T08:00:00Z, not %s", member, api.Quote(text))
	}
	return at, nil
}
