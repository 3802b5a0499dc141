package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var day0 = time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)

func plan(t require.TestingT, s Spec) *Plan {
	s.Name, s.Task = "nightly", "report.build"
	p, err := New(s)
	require.NoError(t, err)
	return p
}

func at(text string) time.Time {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return day0.Add(d)
}

// ats are moments after day0; "" is none.
func ats(slots []Slot) (list []time.Duration) {
	for _, s := range slots {
		list = append(list, s.At.Sub(day0))
	}
	return list
}

func TestDecide(t *testing.T) {
	minute := Spec{Every: "1m"}
	with := func(change func(*Spec)) Spec { s := minute; change(&s); return s }
	all := with(func(s *Spec) { s.Missed = "all" })
	none := with(func(s *Spec) { s.Missed = "none" })
	queue := with(func(s *Spec) { s.Overlap = "queue" })
	live := func(s State) State { s.LastTask, s.LastLive, s.LastAt = 7, true, day0; return s }
	for _, c := range []struct {
		name   string
		spec   Spec
		s      State
		now    string
		fire   string // "": nothing
		cursor string
		queued string
		missed int
		next   string
	}{
		{"a new one misses nothing", minute, State{Created: at("30s")}, "50s", "", "30s", "", 0, "1m"},
		{"a slot at its creation is none", minute, State{Created: at("1m")}, "1m", "", "1m", "", 0, "2m"},
		{"the first slot", minute, State{Created: at("30s")}, "1m", "1m", "1m", "", 0, "2m"},
		{"late by little", minute, State{Cursor: at("0s")}, "1m30s", "1m", "1m", "", 0, "2m"},
		{"one: late by more fires all the same", minute, State{Cursor: at("0s")}, "1m30.001s", "1m", "1m", "", 0, "2m"},
		{"none: it does not", none, State{Cursor: at("0s")}, "1m30.001s", "", "1m", "", 1, "2m"},
		{"none: on time", none, State{Cursor: at("0s")}, "10m", "10m", "10m", "", 9, "11m"},
		{"one: the newest that was missed, then the one on time", minute, State{Cursor: at("0s")}, "10m", "9m", "9m", "", 8, "10m0.25s"},
		{"one: the newest", minute, State{Cursor: at("0s")}, "10m45s", "10m", "10m", "", 9, "11m"},
		{"all: the first", all, State{Cursor: at("0s")}, "10m", "1m", "1m", "", 0, "10m0.25s"},
		{"all: within catch_up", with(func(s *Spec) { s.Missed, s.CatchUp = "all", "5m" }), State{Cursor: at("0s")}, "10m", "5m", "5m", "", 4, "10m0.25s"},
		{"one: none within catch_up", with(func(s *Spec) { s.CatchUp = "50s" }), State{Cursor: at("0s")}, "10m55s", "", "10m4.999s", "", 10, "11m"},
		{"no catch_up: on time fires", with(func(s *Spec) { s.CatchUp = "0s" }), State{Cursor: at("0s")}, "10m29s", "10m", "10m", "", 9, "11m"},
		{"skip", minute, live(State{Cursor: at("0s")}), "1m", "", "1m", "", 1, "2m"},
		{"skip drops the newest missed, too", minute, live(State{Cursor: at("0s")}), "10m", "", "10m", "", 10, "11m"},
		{"skip with all: missed ones wait", all, live(State{Cursor: at("0s")}), "10m", "", "0s", "", 0, "10m30s"},
		{"skip with all: on time it does not", all, live(State{Cursor: at("0s")}), "1m", "", "1m", "", 1, "2m"},
		{"queue", queue, live(State{Cursor: at("0s")}), "1m", "", "1m", "1m", 0, "1m7.5s"},
		{"queue looks at the next slot on time", queue, live(State{Cursor: at("0s")}), "1m55s", "", "1m", "1m", 0, "2m"},
		{"queue keeps one", queue, live(State{Cursor: at("1m"), Queued: at("1m")}), "2m", "", "2m", "1m", 1, "2m15s"},
		{"queue fires", queue, State{Cursor: at("2m"), Queued: at("1m"), LastTask: 7, LastEnd: at("2m")}, "2m10s", "1m", "2m", "", 0, "3m"},
		{"queue fires before others", queue, State{Cursor: at("1m"), Queued: at("1m"), LastTask: 7, LastEnd: at("2m")}, "2m", "1m", "1m", "", 0, "2m0.25s"},
		{"what was queued fires under skip", minute, State{Cursor: at("2m"), Queued: at("1m")}, "2m10s", "1m", "2m", "", 0, "3m"},
		{"a clock set back by less than a period", minute, State{Cursor: at("3m"), LastSlot: at("3m")}, "2m10s", "", "3m", "", 0, "4m"},
		{"by less, and none fired", minute, State{Cursor: at("3m")}, "2m10s", "", "3m", "", 0, "4m"},
		{"by more: back to now", minute, State{Cursor: at("30m")}, "2m10s", "", "2m10s", "", 0, "3m"},
		{"by more: not below what fired", minute, State{Cursor: at("30m"), LastSlot: at("20m")}, "2m10s", "", "20m", "", 0, "21m"},
		{"by more: not below what is queued", queue, live(State{Cursor: at("30m"), LastSlot: at("20m"), Queued: at("25m")}), "2m10s", "", "25m", "25m", 0, "2m26.25s"},
		{"what is queued ahead is due now", queue, State{Cursor: at("30m"), Queued: at("30m")}, "2m10s", "30m", "30m", "", 0, "31m"},
		{"a cursor below what fired", minute, State{Cursor: at("0s"), LastSlot: at("2m")}, "2m10s", "", "2m", "", 0, "3m"},
		{"of an after before", queue, State{Cursor: at("2m"), Queued: at("48h")}, "2m10s", "", "2m", "", 0, "3m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := plan(t, c.spec).Decide(c.s, at(c.now))
			var fire []time.Time
			for _, s := range d.Fire {
				fire = append(fire, s.At)
				require.False(t, s.RunAt.After(at(c.now)), "it is due")
			}
			var want []time.Time
			if c.fire != "" {
				want = append(want, at(c.fire))
			}
			require.Equal(t, want, fire)
			require.Equal(t, at(c.cursor), d.Cursor, "cursor")
			require.Equal(t, at(c.next), d.NextAt, "next_at")
			require.Equal(t, c.missed, d.Missed, "missed")
			if c.queued == "" {
				require.Zero(t, d.Queued)
			} else {
				require.Equal(t, at(c.queued), d.Queued, "queued")
			}
		})
	}
}

// TestDecideAfterUntil: nothing is left to do after the last slot, but what is queued still fires.
func TestDecideAfterUntil(t *testing.T) {
	p := plan(t, Spec{Every: "1m", Until: "2026-03-28T00:02:00Z", Overlap: "queue"})
	d := p.Decide(State{Cursor: at("30s"), LastTask: 1, LastLive: true, LastAt: day0}, at("1m"))
	require.Equal(t, at("1m"), d.Queued)
	require.Equal(t, at("1m7.5s"), d.NextAt)
	d = p.Decide(State{Cursor: d.Cursor, Queued: d.Queued, LastTask: 1, LastEnd: at("3m")}, at("3m"))
	require.Equal(t, []time.Duration{time.Minute}, ats(d.Fire))
	require.Zero(t, d.NextAt, "never again")
}

func TestDecideOfAfter(t *testing.T) {
	s := Spec{After: "10m", From: "2026-03-28T00:01:00Z", Until: "2026-03-28T01:00:00Z", Missed: "none", CatchUp: "0s"}
	p := plan(t, s)
	d := p.Decide(State{Created: at("0s")}, at("30s"))
	require.Empty(t, d.Fire)
	require.Equal(t, at("1m"), d.NextAt, "at from")
	d = p.Decide(State{Created: at("0s")}, at("1m"))
	require.Equal(t, []Slot{{At: at("1m"), RunAt: at("1m")}}, d.Fire)
	require.Equal(t, at("1m0.25s"), d.NextAt)
	s1 := State{Created: at("0s"), Cursor: at("1m"), LastSlot: at("1m"), LastTask: 7, LastAt: at("1m"), LastLive: true}
	d = p.Decide(s1, at("17m"))
	require.Empty(t, d.Fire)
	require.Equal(t, at("17m30s"), d.NextAt, "it waits for the end")
	s1.LastLive, s1.LastEnd = false, at("20m").Add(1234*time.Microsecond)
	d = p.Decide(s1, at("20m30s"))
	require.Empty(t, d.Fire)
	require.Equal(t, at("30m").Add(time.Millisecond), d.Queued, "it is kept for the time when nothing is known of the last task")
	require.Equal(t, d.Queued, d.NextAt)
	s1.Queued, s1.LastEnd, s1.LastAt = d.Queued, time.Time{}, time.Time{}
	require.Empty(t, p.Decide(s1, at("30m")).Fire)
	d = p.Decide(s1, at("50m"))
	require.Equal(t, []time.Duration{30*time.Minute + time.Millisecond}, ats(d.Fire), "late, but never missed")
	require.Zero(t, d.Queued)
	s1.Queued = time.Time{}
	require.Equal(t, []time.Duration{11 * time.Minute}, ats(p.Decide(s1, at("50m")).Fire), "nothing is known at all")

	s1.LastEnd = at("50m")
	require.Zero(t, p.Decide(s1, at("51m")).NextAt, "until")
	s1.LastLive = true
	require.Zero(t, p.Decide(s1, at("1h")).NextAt, "until")
	require.NotZero(t, p.Decide(s1, at("59m")).NextAt)

	back := State{Created: at("0s"), Cursor: at("1000h"), LastSlot: at("1000h"), LastTask: 7, LastEnd: at("5m")}
	d = p.Decide(back, at("16m"))
	require.Equal(t, []Slot{{At: at("1000h").Add(time.Millisecond), RunAt: at("15m")}}, d.Fire, "a clock that was set back holds up nothing")
}

func TestJitter(t *testing.T) {
	p := plan(t, Spec{Every: "1h", Jitter: "30m"})
	other, err := New(Spec{Name: "other", Task: "y", Every: "1h", Jitter: "30m"})
	require.NoError(t, err)
	var early, same int
	for i := range 1000 {
		slot := day0.Add(time.Duration(i) * time.Hour)
		s := p.slot(slot)
		require.Equal(t, s, p.slot(slot.In(time.FixedZone("x", 3600)).UTC()), "the same on every agent")
		require.Equal(t, slot, s.At)
		require.False(t, s.RunAt.Before(slot))
		require.True(t, s.RunAt.Before(slot.Add(30*time.Minute)))
		require.Equal(t, s.RunAt, s.RunAt.Truncate(time.Millisecond))
		if s.RunAt.Before(slot.Add(15 * time.Minute)) {
			early++
		}
		if s == other.slot(slot) {
			same++
		}
	}
	require.InDelta(t, 500, early, 80, "it spreads evenly")
	require.Less(t, same, 10)
	require.Equal(t, Slot{At: day0, RunAt: day0}, plan(t, Spec{Every: "1h"}).slot(day0))
	require.Equal(t, time.Date(2026, 3, 28, 0, 27, 30, 335e6, time.UTC), p.slot(day0).RunAt, "agents of all releases agree")
}

// expected is Decide, slot by slot.
type expected struct {
	fire   []time.Time
	queued time.Time
	missed int
	next   time.Time // the first slot that is not decided
}

func expect(p *Plan, s State, cursor, now time.Time) (e expected) {
	e.queued = s.Queued
	var due []time.Time
	at, ok := p.Next(cursor)
	for ; ok && !at.After(now); at, ok = p.Next(at) {
		due = append(due, at)
	}
	late := func(slot time.Time) bool { return now.Sub(slot) > 30*time.Second }
	var keep []time.Time
	for i, slot := range due {
		newest := i+1 == len(due) || !late(due[i+1])
		if late(slot) && (now.Sub(slot) > p.catchUp || p.missed == "none" || p.missed == "one" && !newest) {
			e.missed++
		} else {
			keep = append(keep, slot)
		}
	}
	switch {
	case !s.LastLive && !e.queued.IsZero():
		e.fire, e.queued = []time.Time{e.queued}, time.Time{}
	case !s.LastLive && len(keep) > 0:
		e.fire, keep = keep[:1], keep[1:]
	case s.LastLive:
		for len(keep) > 0 && (p.missed != "all" || !late(keep[0])) {
			if p.overlap == "queue" && e.queued.IsZero() {
				e.queued = keep[0]
			} else {
				e.missed++
			}
			keep = keep[1:]
		}
	}
	if len(keep) > 0 {
		e.next = keep[0]
	} else if ok {
		e.next = at
	}
	return e
}

// TestDecideIsTheOracles runs schedules through outages, long tasks and clocks that are set back, and compares each decision with
// the oracle's. No slot fires twice, or below the cursor that it began with, or while the last task is live; and each slot is either
// fired, missed, queued or not decided yet.
func TestDecideIsTheOracles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sp := Spec{
			Missed:  rapid.SampledFrom([]string{"", "one", "all", "none"}).Draw(t, "missed"),
			CatchUp: rapid.SampledFrom([]string{"", "0s", "10s", "45s", "10m", "3h"}).Draw(t, "catch_up"),
			Overlap: rapid.SampledFrom([]string{"skip", "queue"}).Draw(t, "overlap"),
		}
		if rapid.Bool().Draw(t, "cron") {
			sp.Cron = rapid.SampledFrom([]string{"*/10 * * * *", "30 1-3 * * *", "0 */2 * * *", "15 2 * * *"}).Draw(t, "expr")
			sp.Timezone = rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Asia/Beirut"}).Draw(t, "zone") // both nights are near
		} else {
			sp.Every = rapid.SampledFrom([]string{"7s", "29s", "45s", "1m", "17m", "2h"}).Draw(t, "every")
		}
		if rapid.Bool().Draw(t, "window") {
			sp.From, sp.Until = "2026-03-28T06:00:11Z", "2026-03-30T00:00:00Z"
		}
		p := plan(t, sp)
		created := day0.Add(time.Duration(rapid.IntRange(0, 7200_000).Draw(t, "created")) * time.Millisecond)
		s, now, fired, missed, reset := State{Created: created}, created, 0, 0, false
		var highest time.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			cursor := s.Cursor
			if cursor.IsZero() {
				cursor = s.Created
			}
			if ahead := cursor.Sub(now); ahead > 0 && ahead > p.period(now) {
				cursor, reset = now, true
				for _, other := range []time.Time{s.LastSlot, s.Queued} {
					if other.After(cursor) {
						cursor = other
					}
				}
			}
			want, d := expect(p, s, cursor, now), p.Decide(s, now)
			var fire []time.Time
			for _, f := range d.Fire {
				fire = append(fire, f.At)
				fired++
				require.False(t, s.LastLive, "no two at once")
				require.True(t, f.At.After(cursor) || f.At.Equal(s.Queued), "not below the cursor")
				require.True(t, f.At.After(highest), "no slot twice, and in order: %s", f.At)
				highest = f.At
				s.LastSlot, s.LastTask, s.LastLive, s.LastAt = f.At, s.LastTask+1, true, now
			}
			require.Equal(t, want.fire, fire, "at %s", now)
			require.Equal(t, want.queued, d.Queued)
			require.Equal(t, want.missed, d.Missed)
			require.False(t, d.Cursor.Before(cursor.Truncate(time.Millisecond)), "the cursor only rises")
			next, _ := p.Next(d.Cursor)
			require.Equal(t, want.next, next, "what is next")
			waits := !d.Queued.IsZero() || !next.IsZero() && !next.After(now)
			switch {
			case !waits:
				require.Equal(t, next, d.NextAt)
			default:
				require.True(t, d.NextAt.After(now) && d.NextAt.Sub(now) <= 30*time.Second, "it is looked at again soon")
				require.False(t, next.After(now) && d.NextAt.After(next), "slots are looked at on time")
			}
			s.Cursor, s.Queued = d.Cursor, d.Queued
			missed += d.Missed
			switch rapid.SampledFrom([]string{"look", "look", "look", "early", "outage", "outage", "back"}).Draw(t, "step") {
			case "look":
				if !d.NextAt.IsZero() && d.NextAt.Sub(now) < 4*time.Hour {
					now = d.NextAt.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "late")) * time.Millisecond)
				}
			case "early":
				now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "little")) * time.Millisecond)
			case "outage":
				now = now.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "outage")) * time.Second)
			case "back":
				now = now.Add(-time.Duration(rapid.IntRange(0, 10_000).Draw(t, "back")) * time.Second)
			}
			if s.LastLive && rapid.Bool().Draw(t, "ends") {
				s.LastLive, s.LastEnd = false, now
			}
		}
		if !reset {
			queued := 0
			if !s.Queued.IsZero() {
				queued = 1
			}
			total := 0
			for at, ok := p.Next(created.Truncate(time.Millisecond)); ok && !at.After(s.Cursor); at, ok = p.Next(at) {
				total++
			}
			require.Equal(t, total, fired+queued+missed, "each slot is decided once")
		}
	})
}

// TestAllFiresEach: with missed = "all" and tasks that end, each slot fires once, whatever outages there are.
func TestAllFiresEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plan(t, Spec{Every: "10s", Missed: "all", Overlap: rapid.SampledFrom([]string{"skip", "queue"}).Draw(t, "overlap")})
		s, now := State{Created: day0}, day0
		next := day0
		for range 200 {
			d := p.Decide(s, now)
			require.Zero(t, d.Missed)
			for _, f := range d.Fire {
				next = next.Add(10 * time.Second)
				require.Equal(t, next, f.At)
				s.LastSlot, s.LastTask, s.LastAt = f.At, s.LastTask+1, now // and it ends before the next look
			}
			s.Cursor, s.Queued, now = d.Cursor, d.Queued, d.NextAt
			if rapid.IntRange(0, 30).Draw(t, "outage") == 0 {
				now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "seconds")) * time.Second)
			}
		}
	})
}

// TestLongOutagesCostLittle counts the offsets that a decision looks up, which all searches do.
func TestLongOutagesCostLittle(t *testing.T) {
	for _, missed := range []string{"one", "all", "none"} {
		for _, expr := range []string{"* * * * *", "* 3 * * *", "0 0 29 2 */7", "* * 1 1 *", "30 2 * * *"} {
			p := plan(t, Spec{Cron: expr, Timezone: "Europe/Berlin", Missed: missed, CatchUp: "366d"})
			lookup, looks := p.cron.zone.lookup, 0
			p.cron.zone.lookup = func(t int64) int64 { looks++; return lookup(t) }
			for _, outage := range []time.Duration{time.Hour, 366 * 24 * time.Hour, 30 * 366 * 24 * time.Hour, 250 * 366 * 24 * time.Hour} {
				looks = 0
				d := p.Decide(State{Cursor: day0.Add(-outage)}, day0)
				require.Less(t, looks, 30*counted, "%s after %s with %s", expr, outage, missed)
				require.LessOrEqual(t, d.Missed, maxCount+40)
			}
		}
	}
}
