package schedule

import (
	"archive/zip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// slots returns the slots of a plan after one moment and through another, in a zone.
func slots(t testing.TB, p *Plan, after, through string, loc *time.Location) (list []string) {
	from, err := time.Parse(time.RFC3339, after)
	require.NoError(t, err)
	to, err := time.Parse(time.RFC3339, through)
	require.NoError(t, err)
	for len(list) < 200 {
		next, ok := p.Next(from)
		if !ok || next.After(to) {
			break
		}
		list, from = append(list, next.In(loc).Format("01-02T15:04:05-07:00")), next
	}
	return list
}

// TestBothNights has the nights on which clocks change.
func TestBothNights(t *testing.T) {
	for _, c := range []struct {
		zone, cron, after, through string
		want                       []string
	}{
		{ // 02:00 to 03:00 is left out
			"Europe/Berlin", "30 2 * * *", "2026-03-28T00:00:00Z", "2026-03-30T12:00:00Z",
			[]string{"03-28T02:30:00+01:00", "03-29T03:00:00+02:00", "03-30T02:30:00+02:00"},
		},
		{
			"Europe/Berlin", "0,15,30 2,3 * * *", "2026-03-29T00:00:00Z", "2026-03-29T12:00:00Z", // one slot for four wall times
			[]string{"03-29T03:00:00+02:00", "03-29T03:15:00+02:00", "03-29T03:30:00+02:00"},
		},
		{
			"Europe/Berlin", "30 * * * *", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z",
			[]string{"03-29T01:30:00+01:00", "03-29T03:00:00+02:00", "03-29T03:30:00+02:00"},
		},
		{
			"Europe/Berlin", "*/30 * * * *", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z",
			[]string{"03-29T01:30:00+01:00", "03-29T03:00:00+02:00", "03-29T03:30:00+02:00", "03-29T04:00:00+02:00"},
		},
		{ // 02:00 to 03:00 comes twice
			"Europe/Berlin", "30 2 * * *", "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z",
			[]string{"10-24T02:30:00+02:00", "10-25T02:30:00+02:00", "10-26T02:30:00+01:00"},
		},
		{
			"Europe/Berlin", "30 * * * *", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z",
			[]string{"10-25T02:30:00+02:00", "10-25T02:30:00+01:00"},
		},
		{
			"Europe/Berlin", "0 */2 * * *", "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z",
			[]string{"10-25T02:00:00+02:00", "10-25T02:00:00+01:00", "10-25T04:00:00+01:00"},
		},
		{
			"Europe/Berlin", "30 0-23 * * *", "2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z", // not with a *: once
			[]string{"10-25T02:30:00+02:00", "10-25T03:30:00+01:00"},
		},
		{
			"America/New_York", "30 1,2 * * *", "2026-11-01T00:00:00Z", "2026-11-01T12:00:00Z",
			[]string{"11-01T01:30:00-04:00", "11-01T02:30:00-05:00"},
		},
		{ // no midnight
			"America/Havana", "0 0 * * *", "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z",
			[]string{"03-08T01:00:00-04:00", "03-09T00:00:00-04:00"},
		},
		{
			"America/Havana", "0 1 * * *", "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z",
			[]string{"03-08T01:00:00-04:00", "03-09T01:00:00-04:00"},
		},
		{ // 00:00 to 01:00 comes twice
			"America/Havana", "0 0 * * *", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z",
			[]string{"11-01T00:00:00-04:00", "11-02T00:00:00-05:00"},
		},
		{
			"Asia/Beirut", "0 0 * * sun", "2026-03-22T12:00:00Z", "2026-04-05T12:00:00Z",
			[]string{"03-29T01:00:00+03:00", "04-05T00:00:00+03:00"},
		},
		{ // midnight comes twice, the first time on the day before
			"Asia/Beirut", "0 0 * * *", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z",
			[]string{"10-25T00:00:00+02:00", "10-26T00:00:00+02:00"},
		},
		{
			"Asia/Beirut", "30 23 * * *", "2026-10-24T12:00:00Z", "2026-10-25T23:00:00Z",
			[]string{"10-24T23:30:00+03:00", "10-25T23:30:00+02:00"},
		},
		{
			"Africa/Cairo", "0 0 * * fri", "2026-04-20T00:00:00Z", "2026-05-01T12:00:00Z",
			[]string{"04-24T01:00:00+03:00", "05-01T00:00:00+03:00"},
		},
		{
			"Africa/Cairo", "30 23 * * thu", "2026-10-28T00:00:00Z", "2026-11-06T00:00:00Z",
			[]string{"10-29T23:30:00+03:00", "11-05T23:30:00+02:00"},
		},
		{ // half an hour
			"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00:00Z", "2026-10-04T23:00:00Z",
			[]string{"10-04T02:30:00+11:00", "10-05T02:15:00+11:00"},
		},
		{
			"Australia/Lord_Howe", "45 1 * * *", "2026-04-03T20:00:00Z", "2026-04-05T20:00:00Z",
			[]string{"04-05T01:45:00+11:00", "04-06T01:45:00+10:30"},
		},
		{
			"Australia/Lord_Howe", "45 * * * *", "2026-04-04T14:30:00Z", "2026-04-04T16:00:00Z",
			[]string{"04-05T01:45:00+11:00", "04-05T01:45:00+10:30"},
		},
		{ // a whole day is left out
			"Pacific/Apia", "30 9 * * *", "2011-12-29T00:00:00Z", "2012-01-01T00:00:00Z",
			[]string{"12-29T09:30:00-10:00", "12-31T00:00:00+14:00", "12-31T09:30:00+14:00", "01-01T09:30:00+14:00"},
		},
		{
			"Pacific/Apia", "0 3 30 12 *", "2011-01-01T00:00:00Z", "2012-12-31T00:00:00Z",
			[]string{"12-31T00:00:00+14:00", "12-30T03:00:00+14:00"},
		},
	} {
		loc, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		require.Equal(t, c.want, slots(t, cronPlan(t, c.cron, c.zone), c.after, c.through, loc), "%s in %s", c.cron, c.zone)
	}
}

func TestRareDays(t *testing.T) {
	years := func(expr string, from int, n int) (list []int) {
		p, at := cronPlan(t, expr, "Asia/Singapore"), time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
		for range n {
			next, ok := p.Next(at)
			require.True(t, ok)
			list, at = append(list, next.Add(8*time.Hour).Year()), next
		}
		return list
	}
	require.Equal(t, []int{2092, 2096, 2104, 2108}, years("0 0 29 2 *", 2089, 4))
	require.Equal(t, []int{2088, 2128, 2156}, years("0 0 29 2 */7", 2061, 3))
}

func TestEndsOfTime(t *testing.T) {
	p := cronPlan(t, "* * * * *", "Pacific/Kiritimati")
	_, ok := p.Next(time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC))
	require.False(t, ok, "not past the year 9999")
	next, ok := cronPlan(t, "* * * * *", "").Next(time.Date(9999, 12, 31, 23, 58, 0, 0, time.UTC))
	require.True(t, ok)
	require.Equal(t, 59, next.Minute())
	for _, at := range []time.Time{{}, time.Unix(-1<<55, 0), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)} {
		for _, p := range []*Plan{p, cronPlan(t, "0 0 29 2 */7", "America/New_York"), everyPlan(t, "366d", ""), everyPlan(t, "1s", "")} {
			next, ok := p.Next(at)
			require.True(t, ok)
			require.True(t, next.After(at))
		}
	}
	for _, at := range []time.Time{time.Unix(1<<55, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		for _, p := range []*Plan{p, everyPlan(t, "1s", ""), everyPlan(t, "366d", "2026-01-01T00:00:00Z")} {
			_, ok := p.Next(at)
			require.False(t, ok)
		}
	}
}

func everyPlan(t testing.TB, every, from string) *Plan {
	p, err := New(Spec{Name: "x", Task: "y", Every: every, From: from})
	require.NoError(t, err)
	return p
}

func TestEvery(t *testing.T) {
	p := everyPlan(t, "15m", "")
	require.Equal(t, []string{"11-20T08:15:00+00:00", "11-20T08:30:00+00:00"}, slots(t, p, "2026-11-20T08:00:00Z", "2026-11-20T08:40:00Z", time.UTC))
	require.Equal(t, []string{"12-31T23:45:00+00:00", "01-01T00:00:00+00:00", "01-01T00:15:00+00:00"},
		slots(t, p, "1969-12-31T23:40:00Z", "1970-01-01T00:20:00Z", time.UTC))
	p = everyPlan(t, "7d", "2026-12-01T03:00:00Z")
	require.Equal(t, []string{"12-01T03:00:00+00:00", "12-08T03:00:00+00:00"}, slots(t, p, "2020-01-01T00:00:00Z", "2026-12-10T00:00:00Z", time.UTC))
}

// TestFromAndUntil: from is a slot where it falls on one, until is none.
func TestFromAndUntil(t *testing.T) {
	s := Spec{Name: "x", Task: "y", Cron: "*/10 * * * *", From: "2026-12-01T00:10:00Z", Until: "2026-12-01T00:30:00Z"}
	p, err := New(s)
	require.NoError(t, err)
	want := []string{"12-01T00:10:00+00:00", "12-01T00:20:00+00:00"}
	require.Equal(t, want, slots(t, p, "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z", time.UTC))
	s.From, s.Until = "2026-12-01T00:09:59.999Z", "2026-12-01T00:30:00.001Z" // between slots
	p, err = New(s)
	require.NoError(t, err)
	require.Equal(t, append(want, "12-01T00:30:00+00:00"), slots(t, p, "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z", time.UTC))
	p, err = New(Spec{Name: "x", Task: "y", Every: "10m", From: "2026-12-01T00:10:00Z", Until: "2026-12-01T00:30:00Z"})
	require.NoError(t, err)
	require.Equal(t, want, slots(t, p, "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z", time.UTC))
}

// oracle walks through the wall time of a zone, minute by minute, and returns all slots after from and through to. It needs
// zones that are whole minutes ahead of UTC.
func oracle(p *Plan, loc *time.Location, from, to time.Time) (list []time.Time) {
	c := p.cron
	matches := func(wall time.Time) bool {
		day := c.dom&(1<<wall.Day()) != 0 && c.dow&(1<<wall.Weekday()) != 0
		if !c.domStar && !c.dowStar {
			day = c.dom&(1<<wall.Day()) != 0 || c.dow&(1<<wall.Weekday()) != 0
		}
		return day && c.month&(1<<wall.Month()) != 0 && c.hour&(1<<wall.Hour()) != 0 && c.minute&(1<<wall.Minute()) != 0
	}
	wallOf := func(t time.Time) time.Time {
		y, m, d := t.In(loc).Date()
		return time.Date(y, m, d, t.In(loc).Hour(), t.In(loc).Minute(), 0, 0, time.UTC)
	}
	start := from.Truncate(time.Minute).Add(-26 * time.Hour)
	newest := wallOf(start).Add(-time.Minute)
	for at := start; !at.After(to); at = at.Add(time.Minute) {
		wall, fires := wallOf(at), false
		for left := newest.Add(time.Minute); left.Before(wall); left = left.Add(time.Minute) {
			fires = fires || matches(left)
		}
		fires = fires || matches(wall) && (c.hourStar || wall.After(newest))
		if wall.After(newest) {
			newest = wall
		}
		if fires && at.After(from) {
			list = append(list, at)
		}
	}
	return list
}

// cronText generates expressions that fire.
func cronText(t *rapid.T) string {
	item := func(lo, hi int) string {
		a := rapid.IntRange(lo, hi).Draw(t, "a")
		b := rapid.IntRange(a, hi).Draw(t, "b")
		return rapid.SampledFrom([]string{
			"*", "*/" + itoa(rapid.IntRange(1, min(hi-lo+1, 31)).Draw(t, "n")), itoa(a), itoa(a) + "-" + itoa(b), itoa(a) + "-" + itoa(b) + "/2", itoa(a) + "," + itoa(b),
		}).Draw(t, "item")
	}
	text := item(0, 59) + " " + item(0, 23) + " " + rapid.SampledFrom([]string{"*", item(1, 28), "29-31", "*/2"}).Draw(t, "dom") + " " +
		rapid.SampledFrom([]string{"*", "*", "1-12", "3,4,10,11", "2-6/2"}).Draw(t, "month") + " " + rapid.SampledFrom([]string{"*", "*", item(0, 6), "*/2"}).Draw(t, "dow")
	if _, err := parseCron(text); err != nil {
		t.Skip("it never fires")
	}
	return text
}

func itoa(n int) string {
	return string(append([]byte(nil), []byte{'0' + byte(n/10), '0' + byte(n%10)}...))
}

var zonesWithChanges = []string{
	"UTC", "Europe/Berlin", "America/New_York", "America/Havana", "Asia/Beirut", "Africa/Cairo", "Australia/Lord_Howe", "Africa/Casablanca",
	"Pacific/Apia", "Asia/Kathmandu", "Europe/Dublin", "America/Nuuk", "America/Scoresbysund", "Antarctica/Troll", "Pacific/Chatham", "America/St_Johns",
	"America/Santiago", "Asia/Gaza", "America/Asuncion", "Pacific/Norfolk", "Asia/Tehran",
}

// TestNextIsTheOracles compares Next with the oracle, near changes of clocks and elsewhere.
func TestNextIsTheOracles(t *testing.T) {
	changes := map[string][]time.Time{}
	for _, name := range zonesWithChanges {
		z, err := loadZone(name)
		require.NoError(t, err)
		end := time.Date(2046, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		for at, ok := z.change(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), end); ok; at, ok = z.change(at, end) {
			changes[name] = append(changes[name], time.Unix(at, 0).UTC())
		}
	}
	require.Len(t, changes["Europe/Berlin"], 44)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(zonesWithChanges).Draw(t, "zone")
		p, err := New(Spec{Name: "x", Task: "y", Cron: cronText(t), Timezone: name})
		require.NoError(t, err)
		loc, err := time.LoadLocation(name)
		require.NoError(t, err)
		from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 22*365*24*60).Draw(t, "minute")) * time.Minute)
		if list := changes[name]; len(list) > 0 && rapid.Bool().Draw(t, "near") {
			from = rapid.SampledFrom(list).Draw(t, "change").Add(-time.Duration(rapid.IntRange(-60, 1600).Draw(t, "before")) * time.Minute)
		}
		from = from.Add(time.Duration(rapid.IntRange(0, 59_999).Draw(t, "ms")) * time.Millisecond)
		to := from.Add(60 * time.Hour)
		want := oracle(p, loc, from, to)
		require.Equal(t, min(len(want), maxCount), p.count(from, to.Add(1)), "count")
		last, ok := p.last(from, to)
		require.Equal(t, len(want) > 0, ok)
		if ok {
			require.Equal(t, want[len(want)-1], last, "last")
		}
		for at := from; ; {
			next, ok := p.Next(at)
			if len(want) == 0 {
				require.True(t, !ok || next.After(to), "%s after %s", next, at)
				return
			}
			require.True(t, ok)
			require.Equal(t, want[0], next, "after %s", at)
			between := at.Add(time.Duration(rapid.Int64Range(0, int64(next.Sub(at))-1).Draw(t, "between")))
			again, _ := p.Next(between)
			require.Equal(t, next, again, "after %s", between)
			at, want = next, want[1:]
		}
	})
}

// allZones lists the zones that come with Go.
func allZones(t *testing.T) (list []string) {
	files, err := zip.OpenReader(filepath.Join(goroot(t), "lib", "time", "zoneinfo.zip"))
	require.NoError(t, err)
	defer files.Close()
	for _, f := range files.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" {
			list = append(list, f.Name)
		}
	}
	require.Greater(t, len(list), 500)
	return list
}

func goroot(t *testing.T) string {
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// TestNextInEveryZone finds the changes of all zones from 2024 to 2045, and walks over those of two years, and of some zones over the time between.
func TestNextInEveryZone(t *testing.T) {
	start, end := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2046, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range allZones(t) {
		z, err := loadZone(name)
		require.NoError(t, err)
		var last int64
		p, loc := cronPlan(t, "15,45 */2 * * *", name), location(t, name)
		for at, ok := z.change(start.Unix(), end.Unix()); ok; at, ok = z.change(at, end.Unix()) {
			require.Greater(t, at-last, int64(2*probe), "%s: see probe", name)
			last = at
			if year := time.Unix(at, 0).Year(); year != 2028 && year != 2045 {
				continue
			}
			from := time.Unix(at-7200, 0).UTC()
			want := oracle(p, loc, from, from.Add(4*time.Hour))
			for _, slot := range want {
				next, ok := p.Next(from)
				require.True(t, ok)
				require.Equal(t, slot, next, name)
				from = next
			}
		}
	}
	for _, name := range []string{"Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe", "America/Havana"} {
		p, n, at := cronPlan(t, "15 */6 * * *", name), 0, start
		for ; at.Before(end); n++ {
			next, ok := p.Next(at)
			require.True(t, ok && next.After(at) && next.Sub(at) <= 8*time.Hour, "%s: %s after %s", name, next, at)
			at = next
		}
		require.InDelta(t, 4*8036, n, 60, name)
	}
}

func location(t *testing.T, name string) *time.Location {
	loc, err := time.LoadLocation(name)
	require.NoError(t, err)
	return loc
}

// TestZonesChangeRarely checks what zone.change relies on, every three hours: that no offset changes twice within probe.
func TestZonesChangeRarely(t *testing.T) {
	for _, name := range zonesWithChanges {
		z, err := loadZone(name)
		require.NoError(t, err)
		var last int64
		before := z.offset(0)
		for at := int64(0); at < 76*365*daySeconds; at += 3 * 3600 {
			if offset := z.offset(at); offset != before {
				require.Greater(t, at-last, int64(2*probe), "%s near %s", name, time.Unix(at, 0).UTC())
				before, last = offset, at
			}
		}
	}
}

// TestNextRightBeforeAChange: the slot at the moment of a change is found from the second before it, too.
func TestNextRightBeforeAChange(t *testing.T) {
	change := time.Date(2026, 3, 8, 5, 0, 0, 0, time.UTC) // from midnight to one o'clock
	p := cronPlan(t, "7,40 0,3 * * *", "America/Havana")
	for _, before := range []time.Duration{1, time.Millisecond, time.Second, time.Minute, time.Hour} {
		next, ok := p.Next(change.Add(-before))
		require.True(t, ok)
		require.Equal(t, change, next, "from %s before", before)
	}
}

// TestCountsOverYears compares count and last with a walk over a long time, changes of clocks included.
func TestCountsOverYears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := New(Spec{Name: "x", Task: "y", Cron: "7,40 */5,3 * * " + rapid.SampledFrom([]string{"*", "1,3"}).Draw(t, "dow"), Timezone: rapid.SampledFrom(zonesWithChanges).Draw(t, "zone")})
		require.NoError(t, err)
		from := time.Date(2026, 1, 1, 0, 0, rapid.IntRange(0, 400*daySeconds).Draw(t, "from"), 1e6, time.UTC)
		to := from.Add(time.Duration(rapid.IntRange(0, 200*24*3600_000).Draw(t, "length")) * time.Millisecond)
		n, last := 0, time.Time{}
		for at, ok := p.Next(from); ok && at.Before(to); at, ok = p.Next(at) {
			n, last = n+1, at
		}
		require.Equal(t, n, p.count(from, to))
		got, ok := p.last(from, to.Add(-1))
		require.Equal(t, n > 0, ok)
		require.Equal(t, last, got)
	})
	p := cronPlan(t, "* * * * *", "Europe/Berlin")
	require.Equal(t, maxCount, p.count(time.Time{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	require.Equal(t, maxCount, everyPlan(t, "1s", "").count(time.Time{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
}

// TestCountOfALeftOutDay: the slot of a day that is left out is on the next day, which does not match.
func TestCountOfALeftOutDay(t *testing.T) {
	p := cronPlan(t, "* 0 30 12 *", "Pacific/Apia")
	require.Equal(t, 1, p.count(time.Date(2011, 12, 29, 0, 0, 0, 0, time.UTC), time.Date(2012, 1, 2, 0, 0, 0, 0, time.UTC)))
}
