package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// What becomes of a schedule when what it declares is changed by SQL.

func scheduleChangedChecks() []Check {
	return []Check{
		{"other slots count from the change on", changedSlots},
		{"a cursor never goes back", changedCursor},
		{"what leaves the slots as they are keeps the cursor", changedRest},
		{"a firing that was decided before does not apply", changedMeanwhile},
		{"an invalid one is used again", changedInvalid},
		{"a paused or parked one stays so", changedHalted},
		{"a mistake changes nothing", changedWrong},
		{"inserted, or else changed", changedUpsert},
		{"deleted, and inserted again", changedDeleted},
		{"what HCL declares is changed there", changedHCL},
	}
}

// every is a schedule of an interval.
func every(name, interval string) store.ScheduleSpec {
	return store.ScheduleSpec{Name: name, Task: kind, Every: interval}
}

// fired declares a schedule that has fired a minute ago, has missed slots, keeps one queued, and is due in an hour.
func (r *rig) fired(name string) store.Schedule {
	r.t.Helper()
	r.declared(name)
	f := r.firing(r.due()[name], r.slot(-time.Minute))
	f.Queued, f.Missed = r.slot(-time.Second), 3
	r.apply(f)
	before := r.due()[name]
	f = r.firing(before)
	f.Cursor, f.Queued, f.NextAt = before.Cursor, before.Queued, r.slot(time.Hour)
	r.apply(f)
	before.Version++
	require.NotContains(r.t, r.due(), name)
	return before
}

func changedSlots(t testing.TB, h Harness) {
	r := newRig(t, h)
	for i, change := range []func(*store.ScheduleSpec){
		func(s *store.ScheduleSpec) { s.Every = "30m" },
		func(s *store.ScheduleSpec) { s.Every, s.Cron = "", "@daily" },
		func(s *store.ScheduleSpec) { s.Every, s.After = "", "1h" },
		func(s *store.ScheduleSpec) { s.Every, s.Cron, s.Timezone = "", "@daily", "Asia/Singapore" },
		func(s *store.ScheduleSpec) { s.From = "2026-01-01T00:00:00Z" },
		func(s *store.ScheduleSpec) { s.Until = "2126-01-01T00:00:00Z" },
	} {
		before := r.fired(fmt.Sprint("s", i))
		spec := every(before.Name, "1h")
		change(&spec)
		require.NoError(t, r.ChangeSchedule(t, spec))
		shown := r.ShownSchedule(t, before.Name)
		near(t, r.now(), shown.NextAt)
		require.Zero(t, shown.NextAt.Nanosecond()%int(time.Millisecond), "whole milliseconds")
		require.EqualValues(t, 3, shown.Missed)
		require.Equal(t, "first", shown.LastBy)
		after := r.due()[before.Name]
		require.Greater(t, after.Version, before.Version)
		near(t, r.now(), after.Cursor)
		require.Zero(t, after.Cursor.Nanosecond()%int(time.Millisecond), "whole milliseconds")
		spec.Payload = after.Payload
		require.Equal(t, spec, after.ScheduleSpec)
		after.ScheduleSpec, after.Version, after.Cursor = before.ScheduleSpec, before.Version, before.Cursor
		require.Equal(t, before, after, "nothing else is changed")
	}
}

func changedCursor(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	f := r.firing(r.due()["a"])
	f.Cursor = r.slot(time.Hour)
	r.apply(f)
	require.NoError(t, r.ChangeSchedule(t, every("a", "30m")))
	require.Equal(t, f.Cursor, r.due()["a"].Cursor)
}

func changedRest(t testing.TB, h Harness) {
	r := newRig(t, h)
	for i, change := range []func(*store.ScheduleSpec){
		func(*store.ScheduleSpec) {},
		func(s *store.ScheduleSpec) { s.Task = "other" },
		func(s *store.ScheduleSpec) { s.Payload = json.RawMessage(`{"n": 1}`) },
		func(s *store.ScheduleSpec) { s.Jitter = "1m" },
		func(s *store.ScheduleSpec) { s.Missed = "all" },
		func(s *store.ScheduleSpec) { s.CatchUp = "2h" },
		func(s *store.ScheduleSpec) { s.Overlap = "queue" },
	} {
		before := r.fired(fmt.Sprint("s", i))
		spec := every(before.Name, "1h")
		change(&spec)
		require.NoError(t, r.ChangeSchedule(t, spec))
		after := r.due()[before.Name]
		require.Greater(t, after.Version, before.Version)
		require.Equal(t, before.Cursor, after.Cursor)
		if spec.Payload == nil {
			spec.Payload = before.Payload
		}
		sameJSON(t, string(spec.Payload), after.Payload, "payload")
		spec.Payload = after.Payload
		require.Equal(t, spec, after.ScheduleSpec)
	}
}

func changedMeanwhile(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	f := r.firing(r.due()["a"], r.slot(-time.Minute))
	require.NoError(t, r.ChangeSchedule(t, every("a", "1h")))
	applied, err := r.ApplyFirings(r.ctx, []store.Firing{f})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, applied)
	require.Empty(t, r.rows())
}

func changedInvalid(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	f := r.firing(r.due()["a"])
	f.Invalid = "no agent can read it"
	r.apply(f)
	require.Empty(t, r.due())
	require.NoError(t, r.ChangeSchedule(t, every("a", "1h")))
	require.Contains(t, r.due(), "a")
	require.Empty(t, r.ShownSchedule(t, "a").Invalid)
}

func changedHalted(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a", "b")
	r.HaltSchedule(t, "a", "paused")
	r.HaltSchedule(t, "b", "parked")
	for _, name := range []string{"a", "b"} {
		require.NoError(t, r.ChangeSchedule(t, every(name, "2h")))
	}
	require.Empty(t, r.due())
}

func changedWrong(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	before := r.due()["a"]
	for _, change := range []func(*store.ScheduleSpec){
		func(s *store.ScheduleSpec) { s.Every = "1x" },
		func(s *store.ScheduleSpec) { s.Cron = "@daily" },
		func(s *store.ScheduleSpec) { s.Every = "" },
		func(s *store.ScheduleSpec) { s.Task = "" },
		func(s *store.ScheduleSpec) { s.Jitter = "1h" },
		func(s *store.ScheduleSpec) { s.Payload = json.RawMessage(`[]`) },
	} {
		spec := every("a", "1h")
		change(&spec)
		require.Error(t, r.ChangeSchedule(t, spec))
		require.Error(t, r.UpsertSchedule(t, spec))
		require.Equal(t, before, r.due()["a"])
	}
	require.NoError(t, r.ChangeSchedule(t, every("unknown", "1h")))
	require.Len(t, r.due(), 1)
}

func changedUpsert(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.NoError(t, r.UpsertSchedule(t, every("a", "1h")))
	before := r.due()["a"]
	require.Zero(t, before.Cursor)
	require.Error(t, r.AddSchedule(t, every("a", "1h")), "the name is taken")
	require.Equal(t, before, r.due()["a"])
	spec := store.ScheduleSpec{Name: "a", Task: "other", Cron: "@daily", Payload: json.RawMessage(`{"n": 1}`), Missed: "none"}
	require.NoError(t, r.UpsertSchedule(t, spec))
	after := r.due()["a"]
	require.Greater(t, after.Version, before.Version)
	near(t, r.now(), after.Cursor)
	sameJSON(t, `{"n": 1}`, after.Payload, "payload")
	spec.Payload = after.Payload
	require.Equal(t, spec, after.ScheduleSpec)
	require.NoError(t, r.UpsertSchedule(t, every("a", "1h")))
	got := r.due()["a"].ScheduleSpec
	sameJSON(t, `{}`, got.Payload, "payload")
	got.Payload = nil
	require.Equal(t, every("a", "1h"), got, "what the INSERT leaves out has its default again")
}

func changedDeleted(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	before := r.due()["a"]
	require.NoError(t, r.DeleteSchedule(t, "a"))
	require.NoError(t, r.DeleteSchedule(t, "a"))
	require.Empty(t, r.due())
	require.Len(t, r.rows(), 1, "its tasks stay")
	r.declared("a")
	after := r.due()["a"]
	require.Zero(t, after.LastTask)
	require.Zero(t, after.Cursor)
	first := r.firing(before, r.slot(0))
	applied, err := r.ApplyFirings(r.ctx, []store.Firing{first})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, applied, "it was decided for another schedule")
	require.Len(t, r.rows(), 1)
	// Also where neither of the two was ever changed.
	require.NoError(t, r.DeleteSchedule(t, "a"))
	r.declared("a")
	applied, err = r.ApplyFirings(r.ctx, []store.Firing{r.firing(after, r.slot(0))})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, applied)
}

func changedHCL(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.says(every("a", "1h"))
	require.NoError(t, r.DeclareSchedule(t, every("a", "1h"), 1))
	before := r.due()["a"]
	require.ErrorContains(t, r.ChangeSchedule(t, every("a", "2h")), "declared in HCL")
	require.ErrorContains(t, r.UpsertSchedule(t, every("a", "2h")), "declared in HCL")
	require.ErrorContains(t, r.DeclareSchedule(t, every("a", "2h"), 1), "declared in HCL")
	require.ErrorContains(t, r.DeleteSchedule(t, "a"), "take it out of its configuration")
	require.Equal(t, before, r.due()["a"])
	r.apply(r.firing(before, r.slot(-time.Minute)))
	require.NoError(t, r.DeclareSchedule(t, every("a", "2h"), 2))
	after := r.due()["a"]
	require.Equal(t, "2h", after.Every)
	require.Greater(t, after.Version, before.Version+1)
	near(t, r.now(), after.Cursor)
	r.HaltSchedule(t, "a", "paused")
	require.Error(t, r.DeleteSchedule(t, "a"))
	r.HaltSchedule(t, "a", "parked")
	require.Error(t, r.DeleteSchedule(t, "a"))
	r.says()
	require.Error(t, r.ChangeSchedule(t, every("a", "3h")))
	require.NoError(t, r.DeleteSchedule(t, "a"))
	r.declared("a")
}
