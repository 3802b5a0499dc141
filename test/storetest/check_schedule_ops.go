package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What operators do with schedules.

func scheduleOpsChecks() []Check {
	return []Check{
		{"listed by name", opsListed},
		{"shown with all that is known", opsShown},
		{"the last task's end is shown", opsLastTask},
		{"paused and resumed", opsPaused},
		{"an invalid one is not looked at when it is resumed", opsResumedInvalid},
		{"removed", opsRemoved},
		{"what a present agent declares is not removed", opsRemovedHCL},
		{"there is no such schedule", opsUnknown},
		{"a change is noted once", opsRace},
		{"a change and a crash", opsCrash},
		{"rows beside its course", opsAside},
		{"rows beside its course that are refused", opsAsideRefused},
	}
}

// listed returns what operators see, in its order.
func (r *rig) listed(f store.ScheduleFilter) []store.ScheduleInfo {
	r.t.Helper()
	all, err := r.ListSchedules(r.ctx, f)
	require.NoError(r.t, err)
	near(r.t, r.now(), all.Now)
	return all.List
}

// shown returns one schedule as operators see it.
func (r *rig) shown(name string) store.ScheduleInfo {
	r.t.Helper()
	list := r.listed(store.ScheduleFilter{Name: name})
	require.Len(r.t, list, 1)
	require.Equal(r.t, name, list[0].Name)
	return list[0]
}

func opsListed(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.listed(store.ScheduleFilter{}))
	r.declared("b", "d", "a", "c")
	for want, f := range map[string]store.ScheduleFilter{
		"abcd": {}, "ab": {Limit: 2}, "bc": {From: "b", Limit: 2}, "cd": {From: "bb"}, "c": {Name: "c"}, "": {Name: "bb"}, "d": {Name: "d", Limit: 7},
	} {
		var got strings.Builder
		for _, s := range r.listed(f) {
			got.WriteString(s.Name)
		}
		require.Equal(t, want, got.String(), "%+v", f)
	}
}

func opsShown(t testing.TB, h Harness) {
	r := newRig(t, h)
	spec := store.ScheduleSpec{
		Name: "nightly", Task: kind, Cron: "0 3 * * mon-fri", Timezone: "Asia/Singapore", Payload: json.RawMessage(`{"kind": "daily"}`),
		Jitter: "30s", From: "2026-12-01T00:00:00Z", Until: "2027-12-01T00:00:00+08:00", Missed: "all", CatchUp: "2d", Overlap: "queue",
	}
	require.NoError(t, r.AddSchedule(t, spec))
	seen := r.due()["nightly"]
	got := r.shown("nightly")
	near(t, r.now(), got.NextAt)
	got.NextAt = time.Time{}
	require.Equal(t, store.ScheduleInfo{Schedule: seen, Source: store.SourceSQL}, got)
	f := r.firing(seen, r.slot(-time.Minute))
	f.Queued, f.Missed = r.slot(-time.Second), 3
	r.apply(f)
	seen, got = r.due()["nightly"], r.shown("nightly")
	require.Equal(t, store.ScheduleInfo{
		Schedule: seen, Source: store.SourceSQL, NextAt: f.NextAt, LastBy: "first", LastState: task.StatePending, MissedSlots: 3,
	}, got)
	require.NoError(t, r.DeclareSchedule(t, every("hcl", "1h"), 1))
	require.Equal(t, store.SourceHCL, r.shown("hcl").Source)
	r.HaltSchedule(t, "hcl", "parked")
	near(t, r.now(), r.shown("hcl").ParkedAt)
	f = r.firing(seen)
	f.Invalid = "no agent can read it"
	r.apply(f)
	got = r.shown("nightly")
	require.Equal(t, f.Invalid, got.Invalid)
	require.Zero(t, got.NextAt)
}

func opsLastTask(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	row := r.claim(want(kind, 1))[0]
	require.Equal(t, task.StateRunning, r.shown("a").LastState)
	end := finish(row)
	end.Next.State, end.Outcome = task.StateFailed, task.Outcome{Verdict: task.Failed, Error: "answered 500"}
	r.settled(end)
	got := r.shown("a")
	require.Equal(t, row.ID, got.LastTask)
	require.Equal(t, task.StateFailed, got.LastState)
	require.Equal(t, task.Failed, got.LastOutcome)
	require.Contains(t, got.LastError, "answered 500")
	require.False(t, got.LastLive)
	near(t, r.now(), got.LastEnd)
	r.Advance(t, 12*day)
	r.maintain(7 * day)
	got = r.shown("a")
	require.Equal(t, row.ID, got.LastTask)
	require.Empty(t, got.LastState)
	require.Empty(t, got.LastOutcome)
	require.Empty(t, got.LastError)
}

// noted asserts what f adds to the audit.
func (r *rig) noted(f func(), want ...Audited) {
	r.t.Helper()
	before := len(r.Audit(r.t))
	f()
	var got []Audited
	agents, _ := r.Roles(r.t)
	for _, a := range r.Audit(r.t)[before:] {
		require.Equal(r.t, agents, a.Role)
		a.Role = ""
		got = append(got, a)
	}
	require.Equal(r.t, want, got)
}

func opsPaused(t testing.TB, h Harness) {
	r := newRig(t, h)
	before := r.fired("a")
	f := r.firing(before, r.slot(0))
	change := func(do func(ctx context.Context, name, by string) (bool, error), by string, want bool) {
		t.Helper()
		changed, err := do(r.ctx, "a", by)
		require.NoError(t, err)
		require.Equal(t, want, changed)
	}
	r.noted(func() { change(r.ResumeSchedule, "alice", false) })
	r.noted(func() { change(r.PauseSchedule, "alice", true) }, Audited{Who: "alice", Verb: "pause", Schedule: "a", Answer: "paused"})
	got := r.shown("a")
	near(t, r.now(), got.PausedAt)
	require.Zero(t, got.PausedAt.Nanosecond()%int(time.Millisecond), "whole milliseconds")
	require.Equal(t, "alice", got.PausedBy)
	require.Greater(t, got.Version, before.Version)
	r.noted(func() { change(r.PauseSchedule, "bob", false) })
	require.Equal(t, got, r.shown("a"), "a repeat changes nothing")
	applied, err := r.ApplyFirings(r.ctx, []store.Firing{f})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, applied, "it was decided before")
	r.Advance(t, 2*time.Hour)
	require.Empty(t, r.due())
	paused := r.shown("a")
	r.noted(func() { change(r.ResumeSchedule, "", true) }, Audited{Verb: "resume", Schedule: "a", Answer: "resumed"})
	got = r.shown("a")
	require.Zero(t, got.PausedAt)
	require.Empty(t, got.PausedBy)
	require.Greater(t, got.Version, paused.Version)
	near(t, r.now(), got.NextAt)
	require.Equal(t, paused.Cursor, got.Cursor, "what came meanwhile was missed")
	require.Equal(t, paused.Queued, got.Queued)
	require.Contains(t, r.due(), "a")
}

func opsResumedInvalid(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	f := r.firing(r.due()["a"])
	f.Invalid = "no agent can read it"
	r.apply(f)
	_, err := r.PauseSchedule(r.ctx, "a", "")
	require.NoError(t, err)
	_, err = r.ResumeSchedule(r.ctx, "a", "")
	require.NoError(t, err)
	require.Empty(t, r.due())
	got := r.shown("a")
	require.Zero(t, got.NextAt)
	require.Equal(t, f.Invalid, got.Invalid)
}

func opsRemoved(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a", "b")
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	r.noted(func() { require.NoError(t, r.RemoveSchedule(r.ctx, "a", "alice")) },
		Audited{Who: "alice", Verb: "remove", Schedule: "a", Answer: "removed"})
	require.Empty(t, r.listed(store.ScheduleFilter{Name: "a"}))
	require.Len(t, r.listed(store.ScheduleFilter{}), 1)
	require.Len(t, r.rows(), 1, "its tasks stay")
	r.noted(func() { require.ErrorIs(t, r.RemoveSchedule(r.ctx, "a", "alice"), store.ErrNoSchedule) })
}

func opsRemovedHCL(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.says(every("a", "1h"))
	r.settles()
	r.noted(func() {
		err := r.RemoveSchedule(r.ctx, "a", "alice")
		var refused *store.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, `schedule "a": an agent that is present declares it: take it out of its configuration first`, refused.Text)
	})
	require.Contains(t, r.due(), "a")
	_, err := r.PauseSchedule(r.ctx, "a", "")
	require.NoError(t, err, "it can be paused")
	r.says() // no agent needs to have parked it
	require.NoError(t, r.RemoveSchedule(r.ctx, "a", "alice"))
	require.Empty(t, r.listed(store.ScheduleFilter{}))
}

func opsUnknown(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("b")
	for _, name := range []string{"a", "", "B", "b ", strings.Repeat("x", 1000)} {
		r.noted(func() {
			_, err := r.PauseSchedule(r.ctx, name, "alice")
			require.ErrorIs(t, err, store.ErrNoSchedule)
			_, err = r.ResumeSchedule(r.ctx, name, "alice")
			require.ErrorIs(t, err, store.ErrNoSchedule)
			require.ErrorIs(t, r.RemoveSchedule(r.ctx, name, "alice"), store.ErrNoSchedule)
		})
		if name != "" {
			require.Empty(t, r.listed(store.ScheduleFilter{Name: name}))
		}
	}
}

func opsRace(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	const operators = 5
	won := make(chan bool, operators)
	r.noted(func() {
		for i := range operators {
			o := r.Twin(t)
			go func() {
				changed, err := o.PauseSchedule(r.ctx, "a", "alice")
				if err != nil {
					t.Errorf("operator %d: %v", i, err)
				}
				won <- changed
			}()
		}
		n := 0
		for range operators {
			if <-won {
				n++
			}
		}
		require.Equal(t, 1, n)
	}, Audited{Who: "alice", Verb: "pause", Schedule: "a", Answer: "paused"})
}

func opsCrash(t testing.TB, h Harness) {
	r := newRig(t, h)
	hits := 0
	for i, point := range r.BatchFailpoints() {
		name := fmt.Sprint("s", i)
		r.declared(name)
		o := r.other(name)
		hit := o.crash(point)
		_, err := o.PauseSchedule(r.ctx, name, "alice")
		o.Fail(nil)
		if !hit() {
			require.NoError(t, err)
			continue
		}
		hits++
		require.Error(t, err)
		notes := 0
		for _, a := range r.Audit(t) {
			if a.Schedule == name {
				notes++
			}
		}
		paused := !r.shown(name).PausedAt.IsZero()
		require.Equal(t, paused, notes == 1, "both or neither")
		changed, err := r.PauseSchedule(r.ctx, name, "alice")
		require.NoError(t, err)
		require.Equal(t, !paused, changed)
	}
	require.Positive(t, hits)
}

func opsAside(t testing.TB, h Harness) {
	r := newRig(t, h)
	spec := every("a", "1h")
	spec.Payload = json.RawMessage(`{"n": 1}`)
	require.NoError(t, r.AddSchedule(t, spec))
	r.apply(r.firing(r.due()["a"], r.slot(-time.Minute)))
	before := r.shown("a")
	aside := func(slots ...time.Time) store.Firing {
		f := r.other("operator").firing(before.Schedule, slots...)
		f.Aside, f.By, f.Queued, f.Missed = store.AsideBackfill, "alice", r.slot(0), 7
		return f
	}
	at := r.slot(-time.Hour)
	r.noted(func() { r.apply(aside(at, at.Add(time.Second))) },
		Audited{Who: "alice", Verb: "backfill", Schedule: "a", Answer: "inserted 2"})
	require.Equal(t, before, r.shown("a"), "nothing of the schedule changes")
	rows := r.rows()
	require.Len(t, rows, 3)
	require.Equal(t, "schedule:a", rows[1].CreatedBy)
	require.True(t, rows[1].RunAt.Equal(at.Add(time.Second)))
	sameJSON(t, fmt.Sprintf(`{"n": 1, "slot": %q}`, store.SlotText(at)), rows[1].Payload, "payload")
	r.apply(aside(at))
	require.Len(t, r.rows(), 4, "a repeat inserts again")
	stale := aside(at)
	stale.Version--
	r.noted(func() {
		applied, err := r.ApplyFirings(r.ctx, []store.Firing{stale})
		require.NoError(t, err)
		require.Equal(t, []bool{false}, applied)
		r.apply(aside()) // which inserts nothing
	})
	require.Len(t, r.rows(), 4)
	for _, how := range []string{"paused", "parked"} {
		r.HaltSchedule(t, "a", how)
		before = r.shown("a")
		f := aside(at)
		f.Aside, f.By = store.AsideFire, ""
		r.noted(func() { r.apply(f) }, Audited{Verb: "fire", Schedule: "a", Answer: "inserted 1"})
		require.Equal(t, before, r.shown("a"), how)
	}
	require.Len(t, r.rows(), 6)
	r.declared("b")
	r.apply(aside(at), r.firing(r.due()["b"], at))
	require.Len(t, r.rows(), 8, "beside others")
	require.NotZero(t, r.shown("b").LastTask)
}

func opsAsideRefused(t testing.TB, h Harness) {
	r := newRig(t, h)
	spec := every("a", "1h")
	spec.Payload = json.RawMessage(`{"a":"` + strings.Repeat("x", store.DefaultMaxPayload-20) + `"}`)
	require.NoError(t, r.AddSchedule(t, spec))
	r.declared("b")
	before := r.shown("a")
	f := r.firing(before.Schedule, r.slot(0))
	f.Aside = store.AsideFire
	notes := r.Audit(t)
	_, err := r.ApplyFirings(r.ctx, []store.Firing{r.firing(r.due()["b"], r.slot(0)), f})
	var input *store.InputError
	require.ErrorAs(t, err, &input)
	require.Contains(t, input.Text, "payload")
	require.Equal(t, before, r.shown("a"), "it is not marked")
	require.Empty(t, r.rows(), "nothing is applied")
	require.Equal(t, notes, r.Audit(t), "nor noted")
}
