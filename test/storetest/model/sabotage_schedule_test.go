package model_test

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongSchedules changes what a look finds, and firings before they are applied.
type wrongSchedules struct {
	*storetest.OnModel
	look func(*store.DueSchedules)
	fire func(m *storetest.OnModel, f *store.Firing)
}

func (w wrongSchedules) DueSchedules(ctx context.Context, limit int) (store.DueSchedules, error) {
	due, err := w.OnModel.DueSchedules(ctx, limit)
	if w.look != nil {
		w.look(&due)
	}
	return due, err
}

func (w wrongSchedules) ApplyFirings(ctx context.Context, list []store.Firing) ([]bool, error) {
	changed := append([]store.Firing(nil), list...)
	for i := range changed {
		if w.fire != nil {
			w.fire(w.OnModel, &changed[i])
		}
	}
	return w.OnModel.ApplyFirings(ctx, changed)
}

func wrongLook(each func(*store.Schedule)) wrong {
	return func(m *storetest.OnModel) storetest.Harness {
		return wrongSchedules{OnModel: m, look: func(due *store.DueSchedules) {
			for i := range due.List {
				each(&due.List[i])
			}
		}}
	}
}

func wrongFiring(change func(m *storetest.OnModel, f *store.Firing)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongSchedules{OnModel: m, fire: change} }
}

// anyVersion has a firing apply whatever the schedule has become.
func anyVersion(m *storetest.OnModel, f *store.Firing) {
	m.TamperSchedules(func(all map[string]*model.Schedule) {
		if c := all[f.Name]; c != nil {
			f.Version = c.Version
		}
	})
}

// wrongDeclared changes what is settled, before it is applied.
type wrongDeclared struct {
	*storetest.OnModel
	look   func(*store.UnsettledSchedule)
	settle func(m *storetest.OnModel, c *store.ScheduleChange)
}

func (w wrongDeclared) UnsettledSchedules(ctx context.Context, after string, limit int) (store.UnsettledSchedules, error) {
	page, err := w.OnModel.UnsettledSchedules(ctx, after, limit)
	for i := range page.List {
		if w.look != nil {
			w.look(&page.List[i])
		}
	}
	return page, err
}

func (w wrongDeclared) SettleSchedules(ctx context.Context, list []store.ScheduleChange) (int, error) {
	changed := append([]store.ScheduleChange(nil), list...)
	for i := range changed {
		if w.settle != nil {
			w.settle(w.OnModel, &changed[i])
		}
	}
	return w.OnModel.SettleSchedules(ctx, changed)
}

func wrongLooks(look func(*store.UnsettledSchedule)) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongDeclared{OnModel: m, look: look} }
}

func declaredSabotages() []sabotage {
	return []sabotage{
		{"the oldest declaration wins", wrongLooks(func(u *store.UnsettledSchedule) { u.Present = u.Present[:min(len(u.Present), 1)] }),
			"schedule_hcl/the newest declaration wins"},
		{"what SQL inserted is changed", wrongLooks(func(u *store.UnsettledSchedule) { u.Source = store.SourceHCL }),
			"schedule_hcl/a name that an application has taken"},
		{"the task type is changed", wrongLooks(func(u *store.UnsettledSchedule) {
			if n := len(u.Present); n > 0 {
				u.Task = u.Present[n-1].Spec.Task
			}
		}), "schedule_hcl/one name with two task types"},
		{"one that is due is changed", wrongLooks(func(u *store.UnsettledSchedule) { u.Due = false }),
			"schedule_hcl/one that is due is changed after it has fired"},
		{"a change applies to another version", func(m *storetest.OnModel) storetest.Harness {
			return wrongDeclared{OnModel: m, settle: func(m *storetest.OnModel, c *store.ScheduleChange) {
				m.TamperSchedules(func(all map[string]*model.Schedule) {
					if s := all[c.Name]; s != nil {
						c.Version = s.Version
					}
				})
			}}
		}, "schedule_hcl/a change that was decided before another does not apply"},
	}
}

func scheduleSabotages() []sabotage {
	return []sabotage{
		{"a firing applies twice", wrongFiring(anyVersion), "schedule/a version applies once"},
		{"many agents fire a slot", wrongFiring(anyVersion), "schedule/many agents fire a slot once"},
		{"a repeat fires again", wrongFiring(anyVersion), "schedule/a crash fires once or not at all"},
		{"missed slots are not counted", wrongFiring(func(_ *storetest.OnModel, f *store.Firing) { f.Missed = 0 }), "schedule/missed slots add up"},
		{"a queued slot is forgotten", wrongFiring(func(_ *storetest.OnModel, f *store.Firing) { f.Queued = time.Time{} }),
			"schedule/one that waits, and one that never fires again"},
		{"an invalid one fires", wrongFiring(func(_ *storetest.OnModel, f *store.Firing) { f.Invalid = "" }), "schedule/an invalid one is left alone"},
		{"rows are due at their slot", wrongFiring(func(_ *storetest.OnModel, f *store.Firing) {
			rows := append([]store.FiringRow(nil), f.Rows...)
			for i := range rows {
				rows[i].RunAt = rows[i].Slot
			}
			f.Rows = rows
		}), "schedule/a firing inserts its rows"},
		{"an ended task is live", wrongLook(func(s *store.Schedule) { s.LastLive = s.LastTask != 0 }), "schedule/the last task is live"},
		{"what may still run has ended", wrongLook(func(s *store.Schedule) { s.LastLive = false }), "schedule/the last task may still run"},
		{"the slot is lost", wrongLook(func(s *store.Schedule) { s.LastSlot = time.Time{} }), "schedule/the last task is past its retention"},
		{"the shortest due first", func(m *storetest.OnModel) storetest.Harness {
			return wrongSchedules{OnModel: m, look: func(due *store.DueSchedules) {
				if n := len(due.List); n > 1 {
					due.List[0], due.List[n-1] = due.List[n-1], due.List[0]
				}
			}}
		}, "schedule/a few at a time, the longest due first"},
		{"the next time is not said", func(m *storetest.OnModel) storetest.Harness {
			return wrongSchedules{OnModel: m, look: func(due *store.DueSchedules) { due.NextAt = time.Time{} }}
		}, "schedule/due at its time, and when the next one is"},
		{"what fires aside moves the schedule", wrongFiring(func(_ *storetest.OnModel, f *store.Firing) { f.Aside = "" }),
			"schedule_ops/rows beside its course"},
		{"nobody inserts rows aside", wrongFiring(func(_ *storetest.OnModel, f *store.Firing) {
			if f.Aside != "" {
				f.By = ""
			}
		}), "schedule_ops/rows beside its course"},
		{"a firing that was decided before a change applies", wrongFiring(anyVersion), "schedule_changed/deleted, and inserted again"},
	}
}
