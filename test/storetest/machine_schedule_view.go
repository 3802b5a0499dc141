package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// scheduleView is a schedule with all that differs between two stores that are right taken out: times are halves of a step from now.
type scheduleView struct {
	Spec                                                store.ScheduleSpec
	Payload                                             string
	Created, Cursor, Queued, NextAt, PausedAt, ParkedAt int
	LastSlot, LastAt, LastEnd, LastTask                 int
	LastLive                                            bool
	Source, LastBy, LastError, PausedBy, Invalid        string
	LastState                                           task.State
	LastOutcome                                         task.Verdict
	Missed                                              int64
}

type versionSide = func(pair[version]) version

// fromNow is how many halves of a step a time is from now.
func fromNow(now, at time.Time) int {
	if at.IsZero() {
		return never
	}
	return halves(now, at)
}

func (m *machine) scheduleSeen(s *store.Schedule, now time.Time, ids taskSide) scheduleView {
	v := scheduleView{
		Spec: s.ScheduleSpec, Payload: oneWay(s.Payload), Created: fromNow(now, s.Created), Cursor: fromNow(now, s.Cursor),
		Queued: fromNow(now, s.Queued), LastSlot: fromNow(now, s.LastSlot), LastAt: fromNow(now, s.LastAt), LastEnd: fromNow(now, s.LastEnd),
		LastTask: place(m.tasks, ids, s.LastTask), LastLive: s.LastLive,
	}
	v.Spec.Payload = nil
	return v
}

func (m *machine) scheduleInfo(i *store.ScheduleInfo, now time.Time, ids taskSide) scheduleView {
	v := m.scheduleSeen(&i.Schedule, now, ids)
	v.NextAt, v.PausedAt, v.ParkedAt = fromNow(now, i.NextAt), fromNow(now, i.PausedAt), fromNow(now, i.ParkedAt)
	v.Source, v.LastBy, v.LastError, v.PausedBy, v.Invalid = i.Source, i.LastBy, i.LastError, i.PausedBy, i.Invalid
	v.LastState, v.LastOutcome, v.Missed = i.LastState, i.LastOutcome, i.MissedSlots
	return v
}

// dueView is a look by name: the order of those that are due at the same moment is the stores' own.
func (m *machine) dueView(d store.DueSchedules, ids taskSide) (v struct {
	Due  map[string]scheduleView
	Next int
}) {
	v.Due, v.Next = map[string]scheduleView{}, fromNow(d.Now, d.NextAt)
	for i := range d.List {
		v.Due[d.List[i].Name] = m.scheduleSeen(&d.List[i], d.Now, ids)
	}
	return v
}

// compareSchedules asserts that all schedules are the same, that the same of them have changed, and that the same was noted.
func (m *machine) compareSchedules() {
	ctx := m.t.Context()
	want, err := m.ideal.ListSchedules(ctx, store.ScheduleFilter{})
	require.NoError(m.t, err)
	got, err := m.real.ListSchedules(ctx, store.ScheduleFilter{})
	require.NoError(m.t, err)
	views := func(all store.ScheduleList, ids taskSide) (list []scheduleView) {
		for i := range all.List {
			list = append(list, m.scheduleInfo(&all.List[i], all.Now, ids))
		}
		return list
	}
	require.Equal(m.t, views(want, onIdeal), views(got, onReal), "the list of schedules")
	now := map[string]pair[version]{}
	for i := range want.List {
		name := want.List[i].Name
		v, old := pair[version]{ideal: version(want.List[i].Version), real: version(got.List[i].Version)}, m.schedules.versions[name]
		require.Equal(m.t, v.ideal > old.ideal, v.real > old.real, "whether the version of %s rises", name)
		require.GreaterOrEqual(m.t, v.real, old.real, "versions of %s never fall", name)
		now[name] = v
	}
	m.schedules.versions = now
	m.compareAudit()
}

// compareAudit asserts that the same was noted since the last time.
func (m *machine) compareAudit() {
	want, got := m.ideal.Audit(m.t), m.real.Audit(m.t)
	require.Len(m.t, got, len(want), "entries of the audit")
	for i := m.schedules.noted; i < len(want); i++ {
		require.Equal(m.t, place(m.tasks, onIdeal, want[i].Task), place(m.tasks, onReal, got[i].Task), "about which task")
		if got[i].Who == got[i].Role { // who does not say who it is, in SQL
			got[i].Who = ""
		}
		got[i].Role, got[i].Task, got[i].Batch = want[i].Role, want[i].Task, want[i].Batch
		require.Equal(m.t, want[i], got[i], "entry %d of the audit", i)
	}
	m.schedules.noted = len(want)
}

// noteDeclarations relates the numbers of declarations that were not seen before.
func (m *machine) noteDeclarations(ideal, actual []store.UnsettledSchedule) {
	for i := range min(len(ideal), len(actual)) {
		for n := range min(len(ideal[i].Present), len(actual[i].Present)) {
			p := pair[version]{ideal: version(ideal[i].Present[n].Number), real: version(actual[i].Present[n].Number)}
			if !slices.Contains(m.schedules.declarations, p) {
				require.Negative(m.t, place(m.schedules.declarations, onIdeal, p.ideal), "a number of two declarations")
				require.Negative(m.t, place(m.schedules.declarations, onReal, p.real), "a number of two declarations")
				m.schedules.declarations = append(m.schedules.declarations, p)
			}
		}
	}
}

type unsettledView struct {
	Name, Source, Task  string
	Present             []string
	Declared            int
	Exists, Parked, Due bool
}

func (m *machine) unsettledViews(page store.UnsettledSchedules, side versionSide) (list []unsettledView) {
	for _, u := range page.List {
		v := unsettledView{
			Name: u.Name, Source: u.Source, Task: u.Task, Exists: u.Exists, Parked: u.Parked, Due: u.Due,
			Declared: place(m.schedules.declarations, side, version(u.Declared)),
		}
		for _, d := range u.Present {
			v.Present = append(v.Present, store.DeclarationHash(d.Spec))
		}
		list = append(list, v)
	}
	return list
}
