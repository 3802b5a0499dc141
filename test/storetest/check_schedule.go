package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func scheduleChecks() []Check {
	return []Check{
		{"a new one is due at once, as it was declared", scheduleNew},
		{"defaults are empty", scheduleDefaults},
		{"due at its time, and when the next one is", scheduleDue},
		{"a few at a time, the longest due first", scheduleFew},
		{"a paused or parked one is left alone", scheduleHalted},
		{"a firing inserts its rows", scheduleFires},
		{"a firing without rows keeps the last one", scheduleKeeps},
		{"one that waits, and one that never fires again", scheduleQueued},
		{"missed slots add up", scheduleMissed},
		{"a version applies once", scheduleOnce},
		{"one schedule twice in a call", scheduleTwice},
		{"many agents fire a slot once", scheduleRace},
		{"an invalid one is left alone", scheduleInvalid},
		{"a row that is refused holds up no other", scheduleRefused},
		{"many at once", scheduleMany},
		{"a crash fires once or not at all", scheduleCrash},
		{"the last task is live", scheduleLive},
		{"the last task may still run", scheduleMayRun},
		{"the last task is past its retention", scheduleForgotten},
	}
}

// declared adds schedules of this interval by name.
func (r *rig) declared(names ...string) {
	r.t.Helper()
	for _, name := range names {
		require.NoError(r.t, r.AddSchedule(r.t, store.ScheduleSpec{Name: name, Task: kind, Every: "1h"}))
	}
}

// due returns the schedules that are due, by name.
func (r *rig) due() map[string]store.Schedule {
	r.t.Helper()
	due, err := r.DueSchedules(r.ctx, 1000)
	require.NoError(r.t, err)
	all := map[string]store.Schedule{}
	for _, s := range due.List {
		all[s.Name] = s
	}
	require.Len(r.t, all, len(due.List))
	return all
}

// slot is a slot in whole milliseconds, some time from now.
func (r *rig) slot(in time.Duration) time.Time {
	return r.now().UTC().Truncate(time.Millisecond).Add(in)
}

// firing fires one slot of a schedule, which is to be looked at again at once.
func (r *rig) firing(s store.Schedule, slots ...time.Time) store.Firing {
	f := store.Firing{Name: s.Name, Version: s.Version, By: r.name, Cursor: r.slot(0), NextAt: r.slot(-time.Second)}
	for _, at := range slots {
		f.Rows = append(f.Rows, store.FiringRow{Slot: at, RunAt: at.Add(time.Second)})
		f.Cursor = at
	}
	return f
}

// apply applies firings, all of which are to apply.
func (r *rig) apply(list ...store.Firing) {
	r.t.Helper()
	applied, err := r.ApplyFirings(r.ctx, list)
	require.NoError(r.t, err)
	require.Len(r.t, applied, len(list))
	require.NotContains(r.t, applied, false)
}

// rows lists the tasks of a type that there are, the newest first.
func (r *rig) rows() []store.TaskInfo {
	r.t.Helper()
	list, err := r.List(r.ctx, store.TaskFilter{Type: kind, Limit: 1000})
	require.NoError(r.t, err)
	return list
}

func scheduleNew(t testing.TB, h Harness) {
	r := newRig(t, h)
	spec := store.ScheduleSpec{
		Name: "nightly", Task: kind, Cron: "0 3 * * mon-fri", Timezone: "Asia/Singapore", Payload: json.RawMessage(`{"kind": "daily"}`),
		Jitter: "30s", From: "2026-12-01T00:00:00Z", Until: "2027-12-01T00:00:00+08:00", Missed: "all", CatchUp: "2d", Overlap: "queue",
	}
	require.NoError(t, r.AddSchedule(t, spec))
	got := r.due()["nightly"]
	sameJSON(t, `{"kind": "daily"}`, got.Payload, "payload")
	near(t, r.now(), got.Created)
	require.Zero(t, got.Created.Nanosecond()%int(time.Millisecond), "whole milliseconds")
	require.Positive(t, got.Version)
	got.Payload = spec.Payload
	require.Equal(t, store.Schedule{ScheduleSpec: spec, Version: got.Version, Created: got.Created}, got)
}

func scheduleDefaults(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	got := r.due()["a"].ScheduleSpec
	sameJSON(t, `{}`, got.Payload, "payload")
	got.Payload = nil
	require.Equal(t, store.ScheduleSpec{Name: "a", Task: kind, Every: "1h"}, got)
	shown := r.ShownSchedule(t, "a")
	near(t, r.now(), shown.NextAt)
	shown.NextAt = time.Time{}
	require.Equal(t, ShownSchedule{}, shown)
}

func scheduleDue(t testing.TB, h Harness) {
	r := newRig(t, h)
	due, err := r.DueSchedules(r.ctx, 10)
	require.NoError(t, err)
	near(t, r.now(), due.Now)
	require.Empty(t, due.List)
	require.Zero(t, due.NextAt)
	r.declared("soon", "later")
	for name, in := range map[string]time.Duration{"soon": time.Hour, "later": 2 * time.Hour} {
		f := r.firing(r.due()[name])
		f.NextAt = r.slot(in)
		r.apply(f)
	}
	soon := r.ShownSchedule(t, "soon").NextAt
	due, err = r.DueSchedules(r.ctx, 10)
	require.NoError(t, err)
	require.Empty(t, due.List)
	require.True(t, due.NextAt.Equal(soon), "%s, not %s", soon, due.NextAt)
	near(t, r.now().Add(time.Hour), due.NextAt)
	r.Advance(t, 61*time.Minute)
	due, err = r.DueSchedules(r.ctx, 10)
	require.NoError(t, err)
	require.Len(t, due.List, 1)
	require.Equal(t, "soon", due.List[0].Name)
	near(t, r.now().Add(59*time.Minute), due.NextAt)
}

func scheduleFew(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a", "b", "c")
	var list []store.Firing
	for i, name := range []string{"b", "c", "a"} {
		f := r.firing(r.due()[name])
		f.NextAt = r.slot(-time.Duration(3-i) * time.Minute)
		list = append(list, f)
	}
	r.apply(list...)
	for limit, want := range map[int][]string{1: {"b"}, 2: {"b", "c"}, 10: {"b", "c", "a"}} {
		due, err := r.DueSchedules(r.ctx, limit)
		require.NoError(t, err)
		require.Zero(t, due.NextAt, "none is due later")
		var names []string
		for _, s := range due.List {
			names = append(names, s.Name)
		}
		require.Equal(t, want, names)
	}
}

func scheduleHalted(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a", "b", "c")
	f := r.firing(r.due()["c"])
	f.NextAt = r.slot(time.Hour)
	r.apply(f)
	r.HaltSchedule(t, "a", "paused")
	r.HaltSchedule(t, "b", "parked")
	r.HaltSchedule(t, "c", "parked")
	due, err := r.DueSchedules(r.ctx, 10)
	require.NoError(t, err)
	require.Empty(t, due.List)
	require.Zero(t, due.NextAt, "what is left alone is not due later")
}

func scheduleFires(t testing.TB, h Harness) {
	r := newRig(t, h)
	spec := store.ScheduleSpec{Name: "a", Task: kind, Every: "1h", Payload: json.RawMessage(`{"n": 12345678901234567890, "slot": 1}`)}
	require.NoError(t, r.AddSchedule(t, spec))
	whole := r.slot(0).Truncate(time.Hour)
	split := whole.Add(time.Minute + 250*time.Millisecond)
	r.apply(r.firing(r.due()["a"], whole, split))
	got := r.due()["a"]
	rows := r.rows()
	require.Len(t, rows, 2)
	for i, at := range []time.Time{split, whole} {
		require.Equal(t, "schedule:a", rows[i].CreatedBy)
		require.Equal(t, task.StatePending, rows[i].State)
		require.True(t, rows[i].RunAt.Equal(at.Add(time.Second)), "%s", rows[i].RunAt)
		sameJSON(t, fmt.Sprintf(`{"n": 12345678901234567890, "slot": %q}`, at.Format("2006-01-02T15:04:05.999Z")), rows[i].Payload, "payload")
	}
	require.Equal(t, rows[0].ID, got.LastTask, "the last of them")
	require.Equal(t, split, got.LastSlot)
	require.Equal(t, split, got.Cursor)
	require.Zero(t, got.Queued)
	require.True(t, got.LastLive)
	near(t, r.now(), got.LastAt)
	require.Zero(t, got.LastEnd)
	shown := r.ShownSchedule(t, "a")
	require.Equal(t, "first", shown.LastBy)
	require.Equal(t, got.LastTask, shown.LastTask)
	require.Zero(t, shown.Missed)
}

func scheduleKeeps(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	before := r.due()["a"]
	o := r.other("second")
	f := o.firing(before)
	f.Cursor = r.slot(-time.Second)
	o.apply(f)
	after := r.due()["a"]
	require.Greater(t, after.Version, before.Version)
	require.Equal(t, f.Cursor, after.Cursor)
	after.Version, after.Cursor = before.Version, before.Cursor
	require.Equal(t, before, after)
	require.Equal(t, "first", r.ShownSchedule(t, "a").LastBy)
	require.Len(t, r.rows(), 1)
}

func scheduleQueued(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	f := r.firing(r.due()["a"])
	f.Queued = r.slot(-time.Minute)
	r.apply(f)
	got := r.due()["a"]
	require.Equal(t, f.Queued, got.Queued)
	f = r.firing(got, f.Queued)
	f.NextAt = time.Time{}
	r.apply(f)
	require.Empty(t, r.due())
	shown := r.ShownSchedule(t, "a")
	require.Zero(t, shown.NextAt)
	require.Zero(t, shown.Queued)
	require.Len(t, r.rows(), 1)
}

func scheduleMissed(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	for _, n := range []int{3, 0, 10_000} {
		f := r.firing(r.due()["a"])
		f.Missed = n
		r.apply(f)
	}
	require.EqualValues(t, 10_003, r.ShownSchedule(t, "a").Missed)
}

func scheduleOnce(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a", "b")
	f := r.firing(r.due()["a"], r.slot(-time.Minute))
	r.apply(f)
	after := r.due()["a"]
	require.Greater(t, after.Version, f.Version)
	other := r.firing(r.due()["b"], r.slot(-time.Minute))
	applied, err := r.ApplyFirings(r.ctx, []store.Firing{f, other, {Name: "unknown", Version: 1}})
	require.NoError(t, err)
	require.Equal(t, []bool{false, true, false}, applied)
	require.Equal(t, after, r.due()["a"], "a repeat changes nothing")
	require.Len(t, r.rows(), 2)
	applied, err = r.ApplyFirings(r.ctx, nil)
	require.NoError(t, err)
	require.Empty(t, applied)
}

func scheduleTwice(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	f := r.firing(r.due()["a"], r.slot(-time.Minute))
	applied, err := r.ApplyFirings(r.ctx, []store.Firing{f, f})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, applied)
	require.Len(t, r.rows(), 1)
}

func scheduleRace(t testing.TB, h Harness) {
	r := newRig(t, h)
	var list []store.Firing
	for i := range 20 {
		r.declared(fmt.Sprint("s", i))
	}
	for _, s := range r.due() {
		list = append(list, r.firing(s, r.slot(-time.Minute)))
	}
	const agents = 6
	won := make(chan int, agents)
	for i := range agents {
		o := r.other(fmt.Sprint("agent", i))
		go func() {
			n := 0
			applied, err := o.ApplyFirings(r.ctx, list)
			for _, did := range applied {
				if did {
					n++
				}
			}
			if err != nil {
				t.Errorf("agent %d: %v", i, err)
			}
			won <- n
		}()
	}
	all := 0
	for range agents {
		all += <-won
	}
	require.Equal(t, len(list), all, "each by one agent")
	require.Len(t, r.rows(), len(list))
}

func scheduleInvalid(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	before := r.ShownSchedule(t, "a")
	f := r.firing(r.due()["a"], r.slot(0))
	f.Invalid, f.Missed, f.Queued = "cron: it's no expression", 7, r.slot(0)
	r.apply(f)
	require.Empty(t, r.due())
	before.Invalid, before.NextAt = f.Invalid, time.Time{}
	require.Equal(t, before, r.ShownSchedule(t, "a"))
	require.Len(t, r.rows(), 1)
	applied, err := r.ApplyFirings(r.ctx, []store.Firing{f})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, applied, "its version has risen")
}

func scheduleRefused(t testing.TB, h Harness) {
	r := newRig(t, h)
	const n = 9
	large := json.RawMessage(`{"a":"` + strings.Repeat("x", store.DefaultMaxPayload-20) + `"}`)
	larger := store.ScheduleSpec{Name: "larger", Task: kind, Every: "1h", Payload: json.RawMessage(`{"a":"` + strings.Repeat("x", store.DefaultMaxPayload) + `"}`)}
	require.ErrorContains(t, r.AddSchedule(t, larger), "payload: it is larger than the bound on payloads", "what no firing could insert")
	var list []store.Firing
	bad := map[string]bool{"s2": true, "s3": true, "s8": true}
	for i := range n {
		spec := store.ScheduleSpec{Name: fmt.Sprint("s", i), Task: kind, Every: "1h"}
		if bad[spec.Name] {
			spec.Payload = large
		}
		require.NoError(t, r.AddSchedule(t, spec))
	}
	due := r.due()
	for i := range n {
		list = append(list, r.firing(due[fmt.Sprint("s", i)], r.slot(-time.Minute)))
	}
	applied, err := r.ApplyFirings(r.ctx, list)
	require.NoError(t, err)
	for i, f := range list {
		require.Equal(t, !bad[f.Name], applied[i], f.Name)
		shown := r.ShownSchedule(t, f.Name)
		require.Equal(t, !bad[f.Name], shown.Invalid == "", f.Name)
		require.Equal(t, bad[f.Name], shown.LastTask == 0)
		if bad[f.Name] {
			require.Contains(t, shown.Invalid, "payload")
			require.Zero(t, shown.NextAt)
			require.Zero(t, shown.LastSlot)
		}
	}
	require.Len(t, r.rows(), n-len(bad))
	require.Len(t, r.due(), n-len(bad))
}

func scheduleMany(t testing.TB, h Harness) {
	r := newRig(t, h)
	const n = 300
	for i := range n {
		r.declared(fmt.Sprint("s", i))
	}
	var list []store.Firing
	for _, s := range r.due() {
		list = append(list, r.firing(s, r.slot(-2*time.Minute), r.slot(-time.Minute)))
	}
	require.Len(t, list, n)
	r.apply(list...)
	owner := map[task.ID]string{}
	rows := r.rows()
	require.Len(t, rows, 2*n)
	for _, row := range rows {
		owner[row.ID] = row.CreatedBy
	}
	for name, s := range r.due() {
		require.Equal(t, "schedule:"+name, owner[s.LastTask])
		near(t, r.now().Add(-time.Minute), s.LastSlot)
	}
}

func scheduleCrash(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	hits := 0
	for i, point := range r.Failpoints() {
		before := r.due()["a"]
		f := r.firing(before, r.slot(-time.Minute))
		o := r.other(fmt.Sprint("crashes", i))
		hit := o.crash(point)
		_, err := o.ApplyFirings(r.ctx, []store.Firing{f})
		o.Fail(nil)
		if !hit() {
			require.NoError(t, err)
			continue
		}
		hits++
		require.Error(t, err)
		n := len(r.rows())
		after := r.due()["a"]
		applied, err := r.ApplyFirings(r.ctx, []store.Firing{f})
		require.NoError(t, err)
		if after.Version == before.Version {
			require.Equal(t, before, after)
			require.Equal(t, []bool{true}, applied)
			require.Len(t, r.rows(), n+1)
			continue
		}
		require.Equal(t, []bool{false}, applied)
		require.Len(t, r.rows(), n)
	}
	require.GreaterOrEqual(t, hits, 2)
}

func scheduleLive(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	row := r.claim(want(kind, 1))[0]
	got := r.due()["a"]
	require.Equal(t, row.ID, got.LastTask)
	require.True(t, got.LastLive)
	require.Zero(t, got.LastEnd)
	r.settled(retry(row, 0))
	require.True(t, r.due()["a"].LastLive, "it waits for another attempt")
	r.settled(finish(r.claim(want(kind, 1))[0]))
	got = r.due()["a"]
	require.False(t, got.LastLive)
	near(t, r.now(), got.LastEnd)
	near(t, r.now(), got.LastAt)
	r.Advance(t, time.Hour)
	near(t, r.now().Add(-time.Hour), r.due()["a"].LastEnd)
}

// An attempt whose end is not known may run until its lease is over.
func scheduleMayRun(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	end := finish(r.claim(want(kind, 1))[0])
	end.Next.State, end.Next.AfterLease = task.StateFailed, true
	end.Outcome = task.Outcome{Verdict: task.Failed, Error: "the connection was lost"}
	r.settled(end)
	got := r.due()["a"]
	require.True(t, got.LastLive)
	require.Zero(t, got.LastEnd)
	r.Advance(t, later)
	got = r.due()["a"]
	require.False(t, got.LastLive)
	near(t, r.now().Add(window-later), got.LastEnd)
}

func scheduleForgotten(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	row := r.claim(want(kind, 1))[0]
	r.settled(finish(row))
	r.Advance(t, 12*day)
	r.maintain(7 * day)
	r.gone(row.ID)
	got := r.due()["a"]
	require.Equal(t, row.ID, got.LastTask)
	require.False(t, got.LastLive)
	require.Zero(t, got.LastAt)
	require.Zero(t, got.LastEnd)
	require.NotZero(t, got.LastSlot)
}
