package v1

import (
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

func (a *API) scheduleRoutes() []route {
	return []route{
		{"GET /schedules", a.listSchedules},
		{"GET /schedules/{name}", a.getSchedule},
		{"POST /schedules/{name}/fire", a.changeSchedule(fireSchedule)},
		{"POST /schedules/{name}/pause", a.changeSchedule(pauseSchedule)},
		{"POST /schedules/{name}/resume", a.changeSchedule(resumeSchedule)},
		{"POST /schedules/{name}/backfill", a.backfillSchedule},
		{"DELETE /schedules/{name}", a.removeSchedule},
	}
}

// schedulePage is a page of schedules.
type schedulePage struct {
	Schedules []ops.ScheduleDetail `json:"schedules"`
	Next      string               `json:"next,omitempty"`
}

func (a *API) listSchedules(c *call) (any, error) {
	f := store.ScheduleFilter{From: c.query.text("from"), Limit: c.query.limit()}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	limit := f.Limit
	f.Limit++ // the first of the next page
	list, err := ops.ListSchedules(c.ctx, s, f)
	if err != nil {
		return nil, err
	}
	p := schedulePage{Schedules: orNone(list)}
	if len(list) > limit {
		p.Schedules, p.Next = list[:limit], c.next("from", list[limit].Name)
	}
	return p, nil
}

func (a *API) getSchedule(c *call) (any, error) {
	name, err := c.text("name")
	if err == nil {
		err = c.query.end()
	}
	if err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	return noneOf(ops.ShowSchedule(c.ctx, s, name))
}
