package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func activityChecks() []Check {
	return []Check{
		{"a write sets what was counted", activitySet},
		{"each count keeps its place", activityPlaces},
		{"of several sessions", activitySessions},
		{"of one type", activityType},
		{"of more types than are told apart", activityTop},
		{"late, too late and too early", activityLate},
		{"at the edges of a reading", activityEdges},
		{"is removed", activityRemoved},
		{"of many rows in one write", activityMany},
		{"of sessions at once", activityAtOnce},
	}
}

// counted is a row with so many attempts that started on time and succeeded.
func counted(step store.ActivityStep, at time.Time, typ string, n int64) store.ActivityRow {
	r := store.ActivityRow{Step: step, At: step.Of(at), Type: typ}
	r.Latency[0], r.Outcomes[store.OutcomePlace(task.Succeeded)] = n, n
	return r
}

// keep writes rows, all of which are taken.
func (r *rig) keep(rows ...store.ActivityRow) {
	r.t.Helper()
	dropped, err := r.KeepActivity(r.ctx, r.session, rows)
	require.NoError(r.t, err)
	require.Zero(r.t, dropped)
}

// activity reads two hours of minutes, or two days of hours, less an interval.
func (r *rig) activity(step store.ActivityStep, typ string) store.Activity {
	r.t.Helper()
	a, err := r.Activity(r.ctx, step, int(step.Kept()/step.Length())-1, typ)
	require.NoError(r.t, err)
	require.WithinDuration(r.t, r.Now(), a.Now, time.Minute)
	require.Equal(r.t, time.UTC, a.Now.Location())
	return a
}

// sums returns how many attempts succeeded, by interval and type.
func sums(a store.Activity) map[string]int64 {
	all := map[string]int64{}
	for _, s := range a.Rows {
		all[s.At.Format("15:04 ")+s.Type] += s.Of(task.Succeeded)
	}
	return all
}

// recently is a time in the present minute, or in the one before: a test that is slow meets the next one.
func (r *rig) recently(ago time.Duration) time.Time { return r.Now().UTC().Add(-ago) }

func key(at time.Time, typ string) string { return at.Format("15:04 ") + typ }

func activitySet(t testing.TB, h Harness) {
	r := newRig(t, h)
	require.Empty(t, r.activity(store.ActivityMinute, "").Rows)
	now := r.recently(5 * time.Minute)
	minute, hour := counted(store.ActivityMinute, now, "a", 7), counted(store.ActivityHour, now, "a", 9)
	for range 3 {
		r.keep(minute, hour)
		require.Equal(t, map[string]int64{key(minute.At, "a"): 7}, sums(r.activity(store.ActivityMinute, "")))
		require.Equal(t, map[string]int64{key(hour.At, "a"): 9}, sums(r.activity(store.ActivityHour, "")))
	}
	r.keep(counted(store.ActivityMinute, now, "a", 12))
	require.Equal(t, map[string]int64{key(minute.At, "a"): 12}, sums(r.activity(store.ActivityMinute, "")))
	r.keep(counted(store.ActivityMinute, now, "a", 3), counted(store.ActivityMinute, now.Add(-time.Minute), "a", 4))
	require.Equal(t, map[string]int64{key(minute.At, "a"): 3, key(minute.At.Add(-time.Minute), "a"): 4},
		sums(r.activity(store.ActivityMinute, "")))
	r.keep()
}

func activityPlaces(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := store.ActivityRow{Step: store.ActivityMinute, At: store.ActivityMinute.Of(r.recently(time.Minute)), Type: "a"}
	for i := range row.Outcomes {
		row.Outcomes[i] = int64(1 + i*i)
	}
	for i := range row.Latency {
		row.Latency[i] = int64(1000 + i*i*i)
	}
	sparse := store.ActivityRow{Step: store.ActivityMinute, At: row.At, Type: "b"}
	sparse.Outcomes[2], sparse.Latency[3] = 5, 6
	empty := store.ActivityRow{Step: store.ActivityMinute, At: row.At, Type: "c"}
	huge := store.ActivityRow{Step: store.ActivityMinute, At: row.At, Type: "é'\"[1]{,}"}
	huge.Outcomes[0], huge.Latency[len(huge.Latency)-1] = 1<<31-1, 1<<31-1
	r.keep(row, sparse, empty, huge)
	got := r.activity(store.ActivityMinute, "").Rows
	require.Len(t, got, 4)
	for i, want := range []store.ActivityRow{row, sparse, empty, huge} {
		require.Equal(t, store.ActivitySum{At: want.At, Type: want.Type, ActivityCounts: want.ActivityCounts}, got[i])
	}
}

func activitySessions(t testing.TB, h Harness) {
	r := newRig(t, h)
	other := r.other("another")
	now := r.recently(2 * time.Minute)
	r.keep(counted(store.ActivityMinute, now, "a", 7))
	other.keep(counted(store.ActivityMinute, now, "a", 20), counted(store.ActivityMinute, now, "b", 1))
	want := map[string]int64{key(now, "a"): 27, key(now, "b"): 1}
	require.Equal(t, want, sums(r.activity(store.ActivityMinute, "")))
	require.Equal(t, want, sums(other.activity(store.ActivityMinute, "")))
	require.NoError(t, r.Leave(r.ctx, r.session))
	r.keep(counted(store.ActivityMinute, now, "a", 8)) // the last write may come after the session has ended
	want[key(now, "a")] = 28
	require.Equal(t, want, sums(other.activity(store.ActivityMinute, "")))
}

func activityType(t testing.TB, h Harness) {
	r := newRig(t, h)
	now := r.recently(2 * time.Minute)
	r.keep(counted(store.ActivityMinute, now, "a", 7), counted(store.ActivityMinute, now, "b", 8), counted(store.ActivityMinute, now, "", 9),
		counted(store.ActivityMinute, now.Add(-time.Minute), "b", 3))
	require.Equal(t, map[string]int64{key(now, "b"): 8, key(now.Add(-time.Minute), "b"): 3}, sums(r.activity(store.ActivityMinute, "b")))
	require.Empty(t, r.activity(store.ActivityMinute, "none").Rows)
	require.Empty(t, r.activity(store.ActivityHour, "b").Rows)
	require.Equal(t, map[string]int64{key(now, "a"): 7, key(now, "b"): 8, key(now, ""): 9, key(now.Add(-time.Minute), "b"): 3},
		sums(r.activity(store.ActivityMinute, "")))
}

func activityTop(t testing.TB, h Harness) {
	r := newRig(t, h)
	now := r.recently(20 * time.Minute)
	want := map[string]int64{}
	var rows []store.ActivityRow
	for i := range store.ActivityTop + 5 {
		typ := fmt.Sprintf("type-%02d", i)
		rows = append(rows, counted(store.ActivityHour, now, typ, int64(10+i)), counted(store.ActivityHour, now.Add(-time.Hour), typ, 1))
		if i < 5 {
			typ = ""
		}
		want[key(store.ActivityHour.Of(now), typ)] += int64(10 + i)
		want[key(store.ActivityHour.Of(now.Add(-time.Hour)), typ)]++
	}
	rows = append(rows, counted(store.ActivityHour, now, "", 5000))
	want[key(store.ActivityHour.Of(now), "")] += 5000
	r.keep(rows...)
	a := r.activity(store.ActivityHour, "")
	require.Equal(t, want, sums(a))
	require.True(t, slices.IsSortedFunc(a.Rows, func(x, y store.ActivitySum) int {
		if c := x.At.Compare(y.At); c != 0 {
			return c
		}
		if x.Type < y.Type {
			return -1
		}
		return 1
	}), "by time and type, each once")
}

func activityLate(t testing.TB, h Harness) {
	r := newRig(t, h)
	now := r.Now().UTC()
	for _, step := range []store.ActivityStep{store.ActivityMinute, store.ActivityHour} {
		late := counted(step, now.Add(-step.Kept()+3*step.Length()), "a", 1)
		soon := counted(step, now, "a", 2)
		soon.At = now.Add(time.Minute) // no boundary: when the next one comes is not up to the test
		dropped, err := r.KeepActivity(r.ctx, r.session, []store.ActivityRow{
			counted(step, now.Add(-step.Kept()-2*step.Length()), "a", 10), late,
			counted(step, now.Add(20*time.Minute+step.Length()), "a", 100), counted(step, now.AddDate(1, 0, 0), "a", 100), soon,
			counted(step, now.AddDate(-50, 0, 0), "a", 100), counted(step, time.Time{}, "a", 100),
		})
		require.NoError(t, err)
		require.Equal(t, 5, dropped)
		require.Equal(t, map[string]int64{key(late.At, "a"): 1}, sums(r.activity(step, "")), "and what lies ahead is not there yet")
	}
}

func activityEdges(t testing.TB, h Harness) {
	r := newRig(t, h)
	for {
		began := store.ActivityMinute.Of(r.Now())
		for i := range 6 {
			r.keep(counted(store.ActivityMinute, began.Add(-time.Duration(i)*time.Minute), "a", int64(1+i)))
		}
		a, err := r.Activity(r.ctx, store.ActivityMinute, 3, "")
		require.NoError(t, err)
		if !store.ActivityMinute.Of(a.Now).Equal(began) {
			continue // a minute has ended in between
		}
		require.Equal(t, began.Add(-2*time.Minute), a.From)
		require.Equal(t, map[string]int64{key(began, "a"): 1, key(began.Add(-time.Minute), "a"): 2, key(began.Add(-2*time.Minute), "a"): 3}, sums(a))
		return
	}
}

func activityRemoved(t testing.TB, h Harness) {
	r := newRig(t, h)
	count := func() (minutes, hours int) {
		r.maintain(7 * day)
		all := func(step store.ActivityStep) int {
			a, err := r.Activity(r.ctx, step, 100_000, "")
			require.NoError(t, err)
			return len(a.Rows)
		}
		return all(store.ActivityMinute), all(store.ActivityHour)
	}
	now := r.Now()
	for i := range 3 {
		at := now.Add(-time.Duration(i) * 15 * time.Minute)
		r.keep(counted(store.ActivityMinute, at, "a", 1), counted(store.ActivityHour, now.Add(-time.Duration(i)*time.Hour), "a", 1))
	}
	expect := func(minutes, hours int) {
		t.Helper()
		m, n := count()
		require.Equal(t, []int{minutes, hours}, []int{m, n})
	}
	expect(3, 3)
	r.Advance(t, 100*time.Minute)
	expect(2, 3) // the first is two hours old
	r.Advance(t, 90*time.Minute)
	expect(0, 3)
	r.Advance(t, 41*time.Hour)
	expect(0, 3)
	r.Advance(t, 5*time.Hour)
	expect(0, 0)

	r.Advance(t, -48*time.Hour) // rows from before a clock was set back
	at := r.Now()
	r.keep(counted(store.ActivityMinute, at, "a", 1), counted(store.ActivityHour, at.Add(-time.Hour), "a", 1))
	r.Advance(t, -3*time.Hour)
	expect(0, 0)
	r.Advance(t, 3*time.Hour)
	expect(0, 0)
}

func activityMany(t testing.TB, h Harness) {
	r := newRig(t, h)
	now := r.recently(time.Minute)
	want := int64(0)
	for round := range 4 {
		rows := make([]store.ActivityRow, store.ActivityRows)
		for i := range rows {
			rows[i] = counted(store.ActivityHour, now.Add(-time.Duration(round)*time.Hour), fmt.Sprint("type-", i), int64(i))
			want += int64(i)
		}
		r.keep(rows...)
	}
	got := int64(0)
	a := r.activity(store.ActivityHour, "")
	require.Len(t, a.Rows, 4*(store.ActivityTop+1))
	for _, s := range a.Rows {
		got += s.Of(task.Succeeded)
	}
	require.Equal(t, want, got)
	r.Advance(t, 49*time.Hour)
	r.maintain(7 * day)
	all, err := r.Activity(r.ctx, store.ActivityHour, 100_000, "")
	require.NoError(t, err)
	require.Empty(t, all.Rows)
}

func activityAtOnce(t testing.TB, h Harness) {
	r := newRig(t, h)
	const agents, types, rounds = 6, 30, 10
	now := r.recently(time.Minute)
	var wg sync.WaitGroup
	errs := make([]error, agents)
	for n := range agents {
		o := r.other(fmt.Sprint("agent ", n))
		wg.Go(func() {
			for round := range rounds {
				var rows []store.ActivityRow
				for i := range types {
					rows = append(rows, counted(store.ActivityMinute, now, fmt.Sprint("type-", (i+n*7)%types), int64(round+1)))
				}
				if _, errs[n] = o.KeepActivity(o.ctx, o.session, rows); errs[n] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for _, s := range r.activity(store.ActivityMinute, "").Rows {
		total += s.Of(task.Succeeded)
	}
	for _, err := range errs {
		require.NoError(t, err)
	}
	require.Equal(t, int64(agents*types*rounds), total)
}
