package web

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

const listSchedules = 100

// scheduleRow is a schedule in a list.
type scheduleRow struct {
	ops.ScheduleDetail
	State, Tone string
}

func rowOfSchedule(s ops.ScheduleDetail) scheduleRow {
	row := scheduleRow{ScheduleDetail: s, State: "active", Tone: "good"}
	switch {
	case s.Invalid != "":
		row.State, row.Tone = "invalid", "bad"
	case !s.PausedAt.IsZero():
		row.State, row.Tone = "paused", "warn"
	case !s.ParkedAt.IsZero():
		row.State, row.Tone = "parked", "warn"
	}
	return row
}

// scheduleList shows the schedules.
func (d *Dashboard) scheduleList(r *request) (*view, error) {
	from, err := r.text("from")
	if err != nil {
		return nil, err
	}
	list, err := ops.ListSchedules(r.ctx, d.Store, store.ScheduleFilter{From: from, Limit: listSchedules + 1})
	if err != nil {
		return nil, err
	}
	data := struct {
		Now  time.Time
		List []scheduleRow
		Next string
	}{Now: r.now}
	if len(list) > listSchedules {
		data.Next = "/schedules?from=" + url.QueryEscape(list[listSchedules].Name)
		list = list[:listSchedules]
	}
	for _, s := range list {
		data.List = append(data.List, rowOfSchedule(s))
	}
	return &view{Title: "Schedules", Place: "schedules", Name: "schedules", Data: data, Live: events}, nil
}

// schedulePage shows one schedule.
func (d *Dashboard) schedulePage(r *request) (*view, error) {
	name, err := r.name("name")
	if err != nil {
		return nil, err
	}
	s, err := ops.ShowSchedule(r.ctx, d.Store, name)
	if err != nil {
		return nil, err
	}
	row := rowOfSchedule(s)
	data := struct {
		Now     time.Time
		Row     scheduleRow
		Payload string
		Verbs   []verb
		Said    string
	}{Now: r.now, Row: row, Said: r.said()}
	if len(s.Payload) > 0 {
		data.Payload = pretty(s.Payload)
	}
	data.Verbs = []verb{{"fire", "Fire now", "One more task is inserted at once. The schedule goes on as ever.", false}}
	if s.PausedAt.IsZero() {
		data.Verbs = append(data.Verbs, verb{"pause", "Pause", "Agents leave the schedule alone. Slots that come meanwhile are missed.", true})
	} else {
		data.Verbs = append(data.Verbs, verb{"resume", "Resume", "Agents go on with the schedule.", false})
	}
	return &view{Title: name, Place: "schedules", Name: "schedule", Data: data, Live: events}, nil
}

// changeSchedule fires, pauses or resumes a schedule.
func (d *Dashboard) changeSchedule(_ http.ResponseWriter, r *request) (string, error) {
	name, err := r.name("name")
	if err != nil {
		return "", err
	}
	said := ""
	switch verb := r.PathValue("verb"); verb {
	case "fire":
		said = "fired"
		_, _, err = ops.FireSchedule(r.ctx, d.Store, name, r.by())
	case "pause", "resume":
		said = verb + "d"
		_, err = ops.PauseSchedule(r.ctx, d.Store, name, verb == "pause", r.by())
	default:
		err = &missing{"a schedule is fired, paused or resumed"}
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/schedules/%s?said=%s", url.PathEscape(name), said), nil
}
