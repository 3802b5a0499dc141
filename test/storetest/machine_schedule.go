package storetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// scheduled is what a history of schedules keeps.
type scheduled struct {
	versions     map[string]pair[version]
	declarations []pair[version]    // their numbers
	decided      []decided          // every firing that there ever was
	changes      [][2]scheduleWants // every change that was ever wanted, on the model and on the store
	slots        map[int][2]string  // of rows: of the task on the model and on the store
	noted        int                // entries of the audit that have been compared
}

// version is of a schedule, or the number of a declaration.
type version int64

type scheduleWants = []store.ScheduleChange

// decided is a firing as it was decided on the model. on the store it has another version, and its times are moved.
type decided struct {
	store.Firing
	on  version
	off time.Duration // by how much the store's clock was ahead of the model's
}

func (m *machine) scheduleActions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"retry":           func(t *rapid.T) { m.operate(t, "retrying", m.ideal.Retry, m.real.Retry) },
		"insert schedule": m.writeSchedule,
		"declare":         m.declare,
		"settle changes":  m.settleSchedules,
		"repeat changes":  m.repeatChanges,
		"fire":            m.fire,
		"fire 2":          m.fire,
		"repeat a firing": m.repeatFiring,
		"fire aside":      m.fireAside,
		"pause":           m.pauseSchedule,
		"wake":            m.wakeSchedules,
		"much later":      m.muchLater,
	}
}

func scheduleNames(t *rapid.T) string { return rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name") }

// scheduleSpec draws a schedule whose slots are at whole steps of the model's clock.
func scheduleSpec(t *rapid.T) store.ScheduleSpec {
	draw := func(label string, list ...string) string { return rapid.SampledFrom(list).Draw(t, label) }
	s := store.ScheduleSpec{
		Name: scheduleNames(t), Task: draw("task", "a", "a", "a", "b"), Missed: draw("missed", "", "one", "all", "none"),
		CatchUp: draw("catch_up", "", "0s", "90m", "210m"), Overlap: draw("overlap", "", "skip", "queue", "queue"),
	}
	switch draw("kind", "every", "every", "cron", "after") {
	case "every":
		s.Every = draw("every", "1h", "2h")
	case "cron":
		s.Cron, s.Timezone = draw("cron", "0 * * * *", "0 */3 * * *"), draw("timezone", "", "Asia/Singapore")
	case "after":
		s.After = draw("after", "30m", "90m")
	}
	if rapid.Bool().Draw(t, "more") {
		s.Payload, s.Jitter = json.RawMessage(`{"n":1}`), "10s"
		s.From, s.Until = draw("from", "", "2026-11-20T10:00:00Z"), draw("until", "", "2026-11-21T10:00:00Z")
	}
	return s
}

// writeSchedule is what an application does to the table.
func (m *machine) writeSchedule(t *rapid.T) {
	m.begin()
	s := scheduleSpec(t)
	do := map[string]func(Harness) error{
		"insert": func(h Harness) error { return h.AddSchedule(m.t, s) },
		"upsert": func(h Harness) error { return h.UpsertSchedule(m.t, s) },
		"update": func(h Harness) error { return h.ChangeSchedule(m.t, s) },
		"remove": func(h Harness) error { return h.DeleteSchedule(m.t, s.Name) },
	}[rapid.SampledFrom([]string{"insert", "insert", "upsert", "update", "remove"}).Draw(t, "what")]
	want, got := do(m.ideal), do(m.real)
	require.Equal(m.t, want == nil, got == nil, "writing: %v, and %v", want, got)
}

func (m *machine) declare(t *rapid.T) {
	ctx := m.begin()
	_, s := m.pick(t)
	var list []store.ScheduleSpec
	for _, one := range rapid.SliceOfN(rapid.Custom(scheduleSpec), 0, 2).Draw(t, "schedules") {
		if !slices.ContainsFunc(list, func(s store.ScheduleSpec) bool { return s.Name == one.Name }) {
			list = append(list, one)
		}
	}
	want, err := m.ideal.DeclareSchedules(ctx, s.ideal, list)
	require.NoError(m.t, err)
	got, err := m.real.DeclareSchedules(ctx, s.real, list)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "whether the session is known")
}

// settleSchedules puts in force what is declared, or some of it.
func (m *machine) settleSchedules(t *rapid.T) {
	ctx := m.begin()
	ideal, err := m.ideal.UnsettledSchedules(ctx, "", 100)
	require.NoError(m.t, err)
	actual, err := m.real.UnsettledSchedules(ctx, "", 100)
	require.NoError(m.t, err)
	m.noteDeclarations(ideal.List, actual.List)
	require.Equal(m.t, m.unsettledViews(ideal, onIdeal), m.unsettledViews(actual, onReal), "what is unsettled")
	var wanted [2]scheduleWants
	for i := range ideal.List {
		want, _ := schedule.Reconcile(&ideal.List[i])
		got, _ := schedule.Reconcile(&actual.List[i])
		if want != nil {
			wanted[0], wanted[1] = append(wanted[0], *want), append(wanted[1], *got)
		}
	}
	if len(wanted[0]) > 0 {
		m.schedules.changes = append(m.schedules.changes, wanted)
	}
	if rapid.IntRange(0, 4).Draw(t, "later") > 0 {
		m.applyChanges(wanted)
	}
}

// repeatChanges has an agent do what it decided some time ago.
func (m *machine) repeatChanges(t *rapid.T) {
	all := m.schedules.changes
	if len(all) == 0 {
		t.Skip("nothing was ever to be changed")
	}
	m.begin()
	m.applyChanges(rapid.SampledFrom(all[max(len(all)-4, 0):]).Draw(t, "changes"))
}

func (m *machine) applyChanges(wanted [2]scheduleWants) {
	ctx := m.t.Context()
	want, err := m.ideal.SettleSchedules(ctx, wanted[0])
	require.NoError(m.t, err)
	got, err := m.real.SettleSchedules(ctx, wanted[1])
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "how many schedules are changed by %+v", wanted[0])
}

// fire has an agent look and fire. What becomes of schedules is decided by what it sees on the model: only there all slots are at
// whole steps.
func (m *machine) fire(t *rapid.T) {
	ctx := m.begin()
	ideal, err := m.ideal.DueSchedules(ctx, 100)
	require.NoError(m.t, err)
	actual, err := m.real.DueSchedules(ctx, 100)
	require.NoError(m.t, err)
	require.Equal(m.t, m.dueView(ideal, onIdeal), m.dueView(actual, onReal), "what is due")
	var list []decided
	for i := range ideal.List {
		s := &ideal.List[i]
		on := slices.IndexFunc(actual.List, func(o store.Schedule) bool { return o.Name == s.Name })
		list = append(list, decided{m.decide(t, s, ideal.Now), version(actual.List[on].Version), m.ahead()})
	}
	slices.SortFunc(list, func(a, b decided) int { return cmp.Compare(a.Name, b.Name) })
	m.schedules.decided = append(m.schedules.decided, list...)
	if rapid.IntRange(0, 4).Draw(t, "later") > 0 {
		m.applyFirings(list)
	}
}

func (m *machine) decide(t *rapid.T, s *store.Schedule, now time.Time) store.Firing {
	f := store.Firing{Name: s.Name, Version: s.Version, By: rapid.SampledFrom([]string{"first", "further"}).Draw(t, "by")}
	p, err := schedule.New(s.ScheduleSpec)
	require.NoError(m.t, err)
	if rapid.IntRange(0, 19).Draw(t, "invalid") == 0 {
		f.Invalid = "no agent can read it"
		return f
	}
	d := p.Decide(schedule.State{
		Created: s.Created, Cursor: s.Cursor, Queued: s.Queued,
		LastTask: s.LastTask, LastLive: s.LastLive, LastSlot: s.LastSlot, LastAt: s.LastAt, LastEnd: s.LastEnd,
	}, now)
	f.Cursor, f.Queued, f.Missed, f.NextAt = d.Cursor, d.Queued, d.Missed, d.NextAt
	if soon := now.Add(half); f.NextAt.After(now) && f.NextAt.Before(soon) {
		f.NextAt = soon // it is looked at again too soon for the time that the test takes
	}
	if rapid.IntRange(0, 9).Draw(t, "ahead") == 0 { // as if the clock had been
		f.Cursor = now.Add(length(t, "by", 4)).Truncate(time.Millisecond)
		f.NextAt = f.Cursor
	}
	for _, slot := range d.Fire {
		f.Rows = append(f.Rows, store.FiringRow{Slot: slot.At, RunAt: now.Add(delay(t, "due in"))})
	}
	return f
}

// repeatFiring has an agent apply what it decided some time ago.
func (m *machine) repeatFiring(t *rapid.T) {
	all := m.schedules.decided
	if len(all) == 0 {
		t.Skip("nothing ever fired")
	}
	m.begin()
	m.applyFirings([]decided{rapid.SampledFrom(all[max(len(all)-4, 0):]).Draw(t, "firing")})
}

// fireAside is what an operator does beside the course of a schedule.
func (m *machine) fireAside(t *rapid.T) {
	name := scheduleNames(t)
	v, known := m.schedules.versions[name]
	if !known {
		t.Skip("there is no such schedule")
	}
	m.begin()
	now := m.ideal.Now().Truncate(time.Millisecond)
	f := decided{store.Firing{
		Name: name, Version: int64(v.ideal), Aside: store.AsideBackfill, By: rapid.SampledFrom([]string{"", "alice"}).Draw(t, "by"),
	}, v.real, m.ahead()}
	for n := range rapid.IntRange(0, 3).Draw(t, "rows") {
		f.Rows = append(f.Rows, store.FiringRow{Slot: now.Add(time.Duration(n-4) * step), RunAt: now})
	}
	if len(f.Rows) == 1 {
		f.Aside = store.AsideFire
	}
	m.applyFirings([]decided{f})
}

// ahead returns by how much the store's clock is ahead of the model's.
func (m *machine) ahead() time.Duration { return m.real.Now().Sub(m.ideal.Now()) }

// applyFirings applies firings, and notes the rows that they insert.
func (m *machine) applyFirings(list []decided) {
	if len(list) == 0 {
		return
	}
	ctx := m.t.Context()
	var onModel, onStore []store.Firing
	for _, d := range list {
		onModel = append(onModel, d.Firing)
		off := d.off + (m.ahead() - d.off).Round(step) // a repeat has the same times, but for what has passed meanwhile
		moved := func(at time.Time) time.Time {
			if at.IsZero() {
				return at
			}
			return at.Add(off).Truncate(time.Millisecond)
		}
		f := d.Firing
		f.Version, f.Cursor, f.Queued, f.NextAt = int64(d.on), moved(f.Cursor), moved(f.Queued), moved(f.NextAt)
		f.Rows = nil
		for _, r := range d.Rows {
			f.Rows = append(f.Rows, store.FiringRow{Slot: moved(r.Slot), RunAt: moved(r.RunAt)})
		}
		onStore = append(onStore, f)
	}
	want, err := m.ideal.ApplyFirings(ctx, onModel)
	require.NoError(m.t, err)
	got, err := m.real.ApplyFirings(ctx, onStore)
	require.NoError(m.t, err)
	require.Len(m.t, got, len(list))
	require.Equal(m.t, want, got, "which firings apply")
	first := len(m.tasks)
	m.addNew()
	for i, f := range onModel {
		if !want[i] || f.Invalid != "" {
			continue
		}
		for n := range f.Rows {
			require.Less(m.t, first, len(m.tasks), "a row that was not inserted")
			m.schedules.slots[first] = [2]string{store.SlotText(f.Rows[n].Slot), store.SlotText(onStore[i].Rows[n].Slot)}
			first++
		}
	}
	require.Len(m.t, m.tasks, first, "rows that nobody wanted")
}

// addNew notes the tasks that have come on both stores.
func (m *machine) addNew() {
	fresh := func(h Harness, side taskSide) (ids []task.ID) {
		list, err := h.List(m.t.Context(), store.TaskFilter{Limit: 1000})
		require.NoError(m.t, err)
		for i := range list {
			if place(m.tasks, side, list[i].ID) < 0 {
				ids = append(ids, list[i].ID)
			}
		}
		slices.Sort(ids)
		return ids
	}
	ideal, actual := fresh(m.ideal, onIdeal), fresh(m.real, onReal)
	require.Len(m.t, actual, len(ideal), "how many rows come")
	for i := range ideal {
		m.added(pair[task.ID]{real: actual[i], ideal: ideal[i]})
	}
}

// payload writes a payload in one way, with its own slot taken out: each store has its own times.
func (m *machine) payload(row int, raw json.RawMessage) string {
	return m.letter(row, m.slotless(row, oneWay(raw)))
}

// slotless is text with the slot of a row taken out.
func (m *machine) slotless(row int, text string) string {
	for _, slot := range m.schedules.slots[row] {
		text = strings.Replace(text, `"`+slot+`"`, `"its slot"`, 1)
	}
	return text
}

func (m *machine) pauseSchedule(t *rapid.T) {
	ctx := m.begin()
	name, by := scheduleNames(t), rapid.SampledFrom([]string{"", "alice"}).Draw(t, "by")
	do := map[string]func(Harness) (bool, error){
		"pause":  func(h Harness) (bool, error) { return h.PauseSchedule(ctx, name, by) },
		"resume": func(h Harness) (bool, error) { return h.ResumeSchedule(ctx, name, by) },
		"remove": func(h Harness) (bool, error) { return false, h.RemoveSchedule(ctx, name, by) },
	}[rapid.SampledFrom([]string{"pause", "resume", "resume", "remove"}).Draw(t, "what")]
	want, reasonWant := do(m.ideal)
	got, reason := do(m.real)
	require.Equal(m.t, want, got, "whether anything changes")
	_, refusedWant := errors.AsType[*store.RefusedError](reasonWant)
	_, refused := errors.AsType[*store.RefusedError](reason)
	require.Equal(m.t, refusedWant, refused, "%v, and %v", reasonWant, reason)
	require.Equal(m.t, errors.Is(reasonWant, store.ErrNoSchedule), errors.Is(reason, store.ErrNoSchedule), "%v, and %v", reasonWant, reason)
	require.Equal(m.t, reasonWant == nil, reason == nil, "%v, and %v", reasonWant, reason)
}

func (m *machine) wakeSchedules(*rapid.T) {
	ctx := m.begin()
	want, err := m.ideal.WakeSchedules(ctx)
	require.NoError(m.t, err)
	got, err := m.real.WakeSchedules(ctx)
	require.NoError(m.t, err)
	require.Equal(m.t, want, got, "how many schedules are woken")
}
