package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
)

// What becomes of schedules that configurations declare.

func scheduleHCLChecks() []Check {
	return []Check{
		{"declared, and put in force", hclDeclared},
		{"the newest declaration wins", hclNewest},
		{"a restart with a known declaration is no new load", hclRestart},
		{"what no present agent declares is parked", hclParked},
		{"a session declares what it said last", hclSaidLast},
		{"an unknown session declares nothing", hclUnknown},
		{"one name with two task types", hclTwoTasks},
		{"a name that an application has taken", hclTaken},
		{"one that is due is changed after it has fired", hclDue},
		{"a change that was decided before another does not apply", hclStale},
		{"many agents settle", hclMany},
		{"a page at a time", hclPages},
		{"one that is ahead of the clock is looked at again", hclAhead},
		{"declaring and settling, and a crash", hclCrash},
	}
}

// says has an agent declare schedules.
func (r *rig) says(list ...store.ScheduleSpec) {
	r.t.Helper()
	known, err := r.DeclareSchedules(r.ctx, r.session, list)
	require.NoError(r.t, err)
	require.True(r.t, known)
}

// settles has an agent settle what is unsettled, and returns how many schedules it changed, and what it refused.
func (r *rig) settles() (changed int, refused []schedule.Refused) {
	r.t.Helper()
	page, err := r.UnsettledSchedules(r.ctx, "", 100)
	require.NoError(r.t, err)
	near(r.t, r.now(), page.Now)
	var list []store.ScheduleChange
	for i := range page.List {
		c, no := schedule.Reconcile(&page.List[i])
		refused = append(refused, no...)
		if c != nil {
			list = append(list, *c)
		}
	}
	changed, err = r.SettleSchedules(r.ctx, list)
	require.NoError(r.t, err)
	return changed, refused
}

// settled requires that nothing is left to be done.
func (r *rig) nothingUnsettled() {
	r.t.Helper()
	page, err := r.UnsettledSchedules(r.ctx, "", 100)
	require.NoError(r.t, err)
	require.Empty(r.t, page.List)
}

// putInForce declares and settles, and has what is due wait for an hour.
func (r *rig) putInForce(list ...store.ScheduleSpec) {
	r.t.Helper()
	r.says(list...)
	changed, refused := r.settles()
	require.Equal(r.t, len(list), changed)
	require.Empty(r.t, refused)
	r.waits()
}

// waits has every schedule that is due wait for an hour.
func (r *rig) waits() {
	r.t.Helper()
	for _, s := range r.due() {
		f := r.firing(s)
		f.Cursor, f.NextAt = s.Cursor, r.slot(time.Hour)
		r.apply(f)
	}
}

func hclDeclared(t testing.TB, h Harness) {
	r := newRig(t, h)
	spec := store.ScheduleSpec{
		Name: "nightly", Task: kind, Cron: "0 3 * * mon-fri", Timezone: "Asia/Singapore", Payload: json.RawMessage(`{"kind": "daily"}`),
		Jitter: "30s", From: "2026-12-01T00:00:00Z", Until: "2027-12-01T00:00:00+08:00", Missed: "all", CatchUp: "2d", Overlap: "queue",
	}
	r.says(spec, every("plain", "1h"))
	changed, refused := r.settles()
	require.Equal(t, 2, changed)
	require.Empty(t, refused)
	r.nothingUnsettled()
	got := r.due()["nightly"]
	sameJSON(t, string(spec.Payload), got.Payload, "payload")
	got.Payload = spec.Payload
	require.Equal(t, spec, got.ScheduleSpec)
	require.Equal(t, store.SourceHCL, r.shown("plain").Source)
	require.JSONEq(t, `{}`, string(r.shown("plain").Payload))
	changed, _ = r.settles()
	require.Zero(t, changed)
}

func hclNewest(t testing.TB, h Harness) {
	r := newRig(t, h)
	old, other := every("a", "1h"), every("a", "2h")
	r.putInForce(old)
	before := r.shown("a")
	second := r.other("second")
	second.putInForce(other)
	after := r.shown("a")
	require.Equal(t, "2h", after.Every)
	require.Greater(t, after.Version, before.Version)
	near(t, r.now(), after.Cursor)
	r.says(old) // again: it was loaded before
	changed, _ := r.settles()
	require.Zero(t, changed)
	require.Equal(t, "2h", r.shown("a").Every)
	require.NoError(t, r.Leave(r.ctx, second.session))
	changed, _ = r.settles()
	require.Equal(t, 1, changed)
	require.Equal(t, "1h", r.shown("a").Every, "no present agent declares the newer one")
	require.False(t, r.shown("a").Cursor.Before(after.Cursor), "a cursor never goes back")
}

func hclRestart(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.putInForce(every("a", "1h"))
	second := r.other("second")
	second.putInForce(every("a", "2h"))
	require.NoError(t, r.Leave(r.ctx, r.session))
	again := r.other("first again")
	again.says(every("a", "1h"))
	changed, _ := again.settles()
	require.Zero(t, changed)
	require.Equal(t, "2h", again.shown("a").Every)
}

func hclParked(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("of an application")
	r.putInForce(every("a", "1h"), every("b", "1h"))
	other := r.other("other service")
	other.putInForce(every("c", "1h"))
	require.NoError(t, r.Leave(r.ctx, r.session)) // it says that it is present where it is used again
	before := other.shown("a").Version
	changed, _ := other.settles()
	require.Equal(t, 2, changed)
	other.nothingUnsettled()
	for _, name := range []string{"a", "b"} {
		near(t, other.now(), other.shown(name).ParkedAt)
	}
	require.Zero(t, other.shown("c").ParkedAt)
	require.Zero(t, other.shown("of an application").ParkedAt, "what SQL inserted is never parked")
	r.Advance(t, 2*time.Hour)
	back := r.other("back")
	require.NotContains(t, back.due(), "a")
	back.says(every("a", "1h"))
	back.settles()
	got := back.shown("a")
	require.Zero(t, got.ParkedAt)
	require.Equal(t, before+2, got.Version)
	require.Equal(t, "1h", got.Every)
	require.Contains(t, back.due(), "a", "slots that came meanwhile were missed")
	require.NotZero(t, back.shown("b").ParkedAt)
	require.NoError(t, r.RemoveSchedule(r.ctx, "b", ""))
}

func hclSaidLast(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.putInForce(every("a", "1h"), every("b", "1h"))
	r.says(every("b", "1h"))
	changed, _ := r.settles()
	require.Equal(t, 1, changed)
	require.NotZero(t, r.shown("a").ParkedAt)
	require.Zero(t, r.shown("b").ParkedAt)
	r.says()
	changed, _ = r.settles()
	require.Equal(t, 1, changed)
	require.NotZero(t, r.shown("b").ParkedAt)
}

func hclUnknown(t testing.TB, h Harness) {
	r := newRig(t, h)
	unknown := func(list ...store.ScheduleSpec) {
		known, err := r.DeclareSchedules(r.ctx, r.session+1000, list)
		require.NoError(t, err)
		require.False(t, known)
	}
	unknown(every("a", "1h"))
	r.nothingUnsettled()
	r.putInForce(every("a", "2h"))
	r.putInForce(every("a", "1h")) // which nobody has loaded before
	require.Equal(t, "1h", r.shown("a").Every)
	r.other("second").says(every("a", "2h"))
	r.nothingUnsettled()
}

func hclTwoTasks(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.putInForce(every("a", "1h"))
	second := r.other("second")
	theirs := every("a", "2h")
	theirs.Task = "suite.other"
	second.says(theirs)
	changed, refused := second.settles()
	require.Zero(t, changed)
	require.Len(t, refused, 1)
	require.Equal(t, "suite.other", refused[0].Task)
	require.Contains(t, refused[0].Reason, "schedule rm")
	require.Equal(t, "1h", r.shown("a").Every)
	_, refused = r.settles()
	require.Len(t, refused, 1, "seen by the others, too")
	require.NoError(t, r.Leave(r.ctx, r.session))
	changed, _ = second.settles()
	require.Equal(t, 1, changed)
	require.NotZero(t, second.shown("a").ParkedAt, "parked, and not taken")
	require.Equal(t, kind, second.shown("a").Task)
	require.NoError(t, r.RemoveSchedule(r.ctx, "a", ""))
	changed, _ = second.settles()
	require.Equal(t, 1, changed)
	require.Equal(t, "suite.other", second.shown("a").Task)
}

func hclTaken(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("a")
	before := r.shown("a")
	r.says(every("a", "2h"))
	changed, refused := r.settles()
	require.Zero(t, changed)
	require.Len(t, refused, 1)
	require.Contains(t, refused[0].Reason, "inserted by SQL")
	require.Equal(t, before, r.shown("a"))
}

func hclDue(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.says(every("a", "1h"))
	r.settles()
	require.Contains(t, r.due(), "a")
	r.says(every("a", "2h"))
	changed, refused := r.settles()
	require.Zero(t, changed)
	require.Empty(t, refused)
	require.Equal(t, "1h", r.shown("a").Every)
	r.waits()
	changed, _ = r.settles()
	require.Equal(t, 1, changed)
	require.Equal(t, "2h", r.shown("a").Every)
}

func hclStale(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.putInForce(every("a", "1h"))
	r.says()
	page, err := r.UnsettledSchedules(r.ctx, "", 10)
	require.NoError(t, err)
	require.Len(t, page.List, 1)
	change, _ := schedule.Reconcile(&page.List[0])
	_, err = r.PauseSchedule(r.ctx, "a", "")
	require.NoError(t, err)
	n, err := r.SettleSchedules(r.ctx, []store.ScheduleChange{*change})
	require.NoError(t, err)
	require.Zero(t, n)
	require.Zero(t, r.shown("a").ParkedAt)
}

func hclMany(t testing.TB, h Harness) {
	r := newRig(t, h)
	agents := []*rig{r, r.other("second"), r.other("third"), r.other("fourth")}
	var all sync.WaitGroup
	errs := make(chan error, len(agents))
	for n, a := range agents {
		all.Go(func() {
			spec := every("a", "1h")
			if n > 1 {
				spec = every("a", "2h")
			}
			_, err := a.DeclareSchedules(a.ctx, a.session, []store.ScheduleSpec{spec, every("b", "1h")})
			page, err2 := a.UnsettledSchedules(a.ctx, "", 10)
			var list []store.ScheduleChange
			for i := range page.List {
				if c, _ := schedule.Reconcile(&page.List[i]); c != nil {
					list = append(list, *c)
				}
			}
			_, err3 := a.SettleSchedules(a.ctx, list)
			errs <- errors.Join(err, err2, err3)
		})
	}
	all.Wait()
	for range agents {
		require.NoError(t, <-errs)
	}
	r.waits()
	r.settles()
	r.nothingUnsettled()
	require.Len(t, r.listed(store.ScheduleFilter{}), 2)
}

func hclPages(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.says(every("a", "1h"), every("b", "1h"), every("c", "1h"))
	for after, want := range map[string]int{"": 2, "a": 2, "b": 1, "c": 0} {
		page, err := r.UnsettledSchedules(r.ctx, after, 2)
		require.NoError(t, err)
		require.Len(t, page.List, want, after)
	}
}

func hclCrash(t testing.TB, h Harness) {
	r := newRig(t, h)
	hits := 0
	for i, point := range r.BatchFailpoints() {
		spec := every(fmt.Sprint("s", i), "1h")
		o := r.other(spec.Name)
		hit := o.crash(point)
		_, err := o.DeclareSchedules(o.ctx, o.session, []store.ScheduleSpec{spec})
		if hit() {
			hits++
			require.Error(t, err)
		}
		o.Fail(nil)
		o.says(spec)
		page, err := o.UnsettledSchedules(o.ctx, "", 10)
		require.NoError(t, err)
		var list []store.ScheduleChange
		for n := range page.List {
			if c, _ := schedule.Reconcile(&page.List[n]); c != nil {
				list = append(list, *c)
			}
		}
		require.NotEmpty(t, list)
		hit = o.crash(point)
		_, err = o.SettleSchedules(o.ctx, list)
		if hit() {
			require.Error(t, err)
		}
		o.Fail(nil)
		o.settles()
		require.Zero(t, r.shown(spec.Name).ParkedAt)
		require.Equal(t, "1h", r.shown(spec.Name).Every)
	}
	require.Positive(t, hits)
}

// hclAhead: the clock was a day ahead, and is back.
func hclAhead(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.declared("not fired there", "fired there", "on time", "paused")
	for name, s := range r.due() {
		at := r.slot(24 * time.Hour)
		f := r.firing(s)
		if name == "fired there" {
			f = r.firing(s, at)
		}
		f.Cursor, f.NextAt = at, at.Add(time.Hour)
		if name == "on time" {
			f.Cursor = r.slot(-time.Second)
		}
		r.apply(f)
	}
	r.HaltSchedule(t, "paused", "paused")
	before := r.shown("not fired there").Version
	woken, err := r.WakeSchedules(r.ctx)
	require.NoError(t, err)
	require.Equal(t, 1, woken)
	require.Len(t, r.due(), 1)
	require.Greater(t, r.due()["not fired there"].Version, before)
	// It is decided anew, and not again.
	f := r.firing(r.due()["not fired there"])
	f.Cursor, f.NextAt = r.slot(0), r.slot(time.Hour)
	r.apply(f)
	woken, err = r.WakeSchedules(r.ctx)
	require.NoError(t, err)
	require.Zero(t, woken)
}
