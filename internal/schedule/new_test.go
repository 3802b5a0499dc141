package schedule

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func spec(change func(*Spec)) Spec {
	s := Spec{Name: "nightly", Task: "report.build", Every: "1m"}
	change(&s)
	return s
}

func cronPlan(t require.TestingT, expr, zone string) *Plan {
	p, err := New(Spec{Name: "x", Task: "y", Cron: expr, Timezone: zone})
	require.NoError(t, err, "%s %s", expr, zone)
	return p
}

func TestNewAccepts(t *testing.T) {
	for _, s := range []Spec{
		spec(func(s *Spec) {}),
		spec(func(s *Spec) { s.Every = "366d" }),
		spec(func(s *Spec) { s.Every, s.After = "", "1s" }),
		spec(func(s *Spec) { s.Jitter = "59s999ms" }),
		spec(func(s *Spec) { s.Jitter, s.CatchUp, s.Missed, s.Overlap = "0s", "0s", "all", "queue" }),
		spec(func(s *Spec) { s.CatchUp = "366d" }),
		spec(func(s *Spec) { s.From, s.Until = "2026-12-01T00:00:00.123Z", "2026-12-01T08:00:00.124+08:00" }),
		spec(func(s *Spec) { s.Payload = []byte(` {"a": 1}`) }),
		spec(func(s *Spec) { s.Name, s.Task = strings.Repeat("n", MaxName), strings.Repeat("t", MaxName) }),
		spec(func(s *Spec) { s.Every, s.Cron, s.Timezone, s.Jitter = "", "0 3 * * 1", "Etc/GMT+12", "23h59m59s999ms" }),
	} {
		_, err := New(s)
		require.NoError(t, err, "%+v", s)
	}
}

// TestNewRefuses checks the field and a part of the text of each mistake.
func TestNewRefuses(t *testing.T) {
	for i, c := range []struct {
		field, text string
		spec        Spec
	}{
		{"name", "empty", spec(func(s *Spec) { s.Name = "" })},
		{"name", "256 bytes", spec(func(s *Spec) { s.Name = strings.Repeat("n", MaxName+1) })},
		{"name", "UTF-8", spec(func(s *Spec) { s.Name = "a\xff" })},
		{"name", "NUL", spec(func(s *Spec) { s.Name = "a\x00" })},
		{"task", "empty", spec(func(s *Spec) { s.Task = "" })},
		{"cron", "none of", spec(func(s *Spec) { s.Every = "" })},
		{"cron", "more than one", spec(func(s *Spec) { s.Cron = "@daily" })},
		{"cron", "more than one", spec(func(s *Spec) { s.After = "1m" })},
		{"every", "from 1s", spec(func(s *Spec) { s.Every = "999ms" })},
		{"every", "to 366d", spec(func(s *Spec) { s.Every = "366d1ms" })},
		{"every", "unit", spec(func(s *Spec) { s.Every = "90" })},
		{"every", "not a duration", spec(func(s *Spec) { s.Every = "-1m" })},
		{"every", "whole numbers", spec(func(s *Spec) { s.Every = "1.5h" })},
		{"every", "in this order", spec(func(s *Spec) { s.Every = "1m1h" })},
		{"every", "whole numbers", spec(func(s *Spec) { s.Every = "1s1us" })},
		{"after", "from 1s", spec(func(s *Spec) { s.Every, s.After = "", "0s" })},
		{"timezone", "only with cron", spec(func(s *Spec) { s.Timezone = "UTC" })},
		{"timezone", "not the name", spec(func(s *Spec) { s.Every, s.Cron, s.Timezone = "", "@daily", "Local" })},
		{"timezone", "no time zone", spec(func(s *Spec) { s.Every, s.Cron, s.Timezone = "", "@daily", "Mars/Phobos" })},
		{"timezone", "not the name", spec(func(s *Spec) { s.Every, s.Cron, s.Timezone = "", "@daily", "right/Europe/Berlin" })},
		{"timezone", "not the name", spec(func(s *Spec) { s.Every, s.Cron, s.Timezone = "", "@daily", "../Europe/Berlin" })},
		{"jitter", "not shorter than the time between two slots, 1m", spec(func(s *Spec) { s.Jitter = "1m" })},
		{"jitter", "not shorter than the time between two slots, 1m", spec(func(s *Spec) { s.Every, s.After, s.Jitter = "", "1m", "1m" })},
		{"jitter", "not shorter than the shortest time between two of its times of day, 1h", spec(func(s *Spec) { s.Every, s.Cron, s.Jitter = "", "59 23,0 * * *", "24h" })},
		{"jitter", "two of its times of day, 1d", spec(func(s *Spec) { s.Every, s.Cron, s.Jitter = "", "@monthly", "24h" })},
		{"from", "RFC 3339", spec(func(s *Spec) { s.From = "2026-12-01" })},
		{"from", "RFC 3339", spec(func(s *Spec) { s.From = "2026-02-30T00:00:00Z" })},
		{"from", "RFC 3339", spec(func(s *Spec) { s.From = "2016-12-31T23:59:60Z" })},
		{"from", "RFC 3339", spec(func(s *Spec) { s.From = "2026-12-01T00:00:00.0001Z" })},
		{"from", "year", spec(func(s *Spec) { s.From = "1969-12-31T23:59:59Z" })},
		{"until", "year", spec(func(s *Spec) { s.Until = "9999-12-31T23:59:59-01:00" })},
		{"until", "not after", spec(func(s *Spec) { s.From, s.Until = "2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z" })},
		{"missed", "one, all or none", spec(func(s *Spec) { s.Missed = "two" })},
		{"catch_up", "to 366d", spec(func(s *Spec) { s.CatchUp = "367d" })},
		{"overlap", "skip or queue", spec(func(s *Spec) { s.Overlap = "Skip" })},
		{"payload", "not JSON", spec(func(s *Spec) { s.Payload = []byte("{") })},
		{"payload", "object", spec(func(s *Spec) { s.Payload = []byte("[]") })},
		{"payload", "NUL", spec(func(s *Spec) { s.Payload = []byte(`{"a":"\u0000"}`) })},
	} {
		_, err := New(c.spec)
		var bad *SpecError
		require.ErrorAs(t, err, &bad, "%d %s", i, c.field)
		require.Len(t, bad.Problems, 1, "%v", err)
		require.Equal(t, c.field, bad.Problems[0].Field, "%v", err)
		require.Contains(t, bad.Problems[0].Text, c.text)
	}
	_, err := New(Spec{Name: "x", Missed: "?", Overlap: "?"})
	var bad *SpecError
	require.ErrorAs(t, err, &bad)
	require.Len(t, bad.Problems, 4, "all mistakes at once: %v", err)
}

func TestGrammar(t *testing.T) {
	same := func(a, b string) {
		t.Helper()
		x, err := parseCron(a)
		require.NoError(t, err)
		y, err := parseCron(b)
		require.NoError(t, err)
		require.Equal(t, *x, *y, "%q and %q", a, b)
	}
	same("  0\t3 * * MON-Fri ", "0 3 * * 1-5")
	same("0 0 1 Jan,feb-APR *", "0 0 1 1,2,3,4 *")
	same("0 0 * * 7", "0 0 * * sun")
	same("0 0 * * 5-7", "0 0 * * fri,sat,0")
	same("10-30/10,50 * * * *", "10,20,30,50 * * * *")
	same("*/60 */24 */31 */12 */7", "*/60 */24 */31 */12 */7")
	same("01 02 03 04 05", "1 2 3 4 5")
	same("@Weekly", "0 0 * * 0")
	same("@annually", "@yearly")
	same("@midnight", "@daily")
	c, err := parseCron("*/20 */9 */30 */11 */6")
	require.NoError(t, err)
	require.Equal(t, []int{0, 20, 40}, values(c.minute))
	require.Equal(t, []int{0, 9, 18}, values(c.hour))
	require.Equal(t, []int{1, 31}, values(c.dom))
	require.Equal(t, []int{1, 12}, values(c.month))
	require.Equal(t, []int{0, 6}, values(c.dow))
	require.True(t, c.hourStar && c.domStar && c.dowStar)
}

func TestGrammarRefuses(t *testing.T) {
	for _, expr := range []string{
		"", " ", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 8",
		"-1 * * * *", "5- * * * *", "-5 * * * *", "1-2-3 * * * *", "5/2 * * * *", "*/0 * * * *", "*/61 * * * *", "* */25 * * *", "* * */32 * *",
		"* * * */13 *", "* * * * */8", "*/ * * * *", "*/-1 * * * *", "*/x * * * *", "1,,2 * * * *", ",1 * * * *", "1, * * * *", "30-10 * * * *",
		"** * * * *", "*1 * * * *", "? * * * *", "* * L * *", "* * 15W * *", "* * * * 5#3", "* * * * 5L", "H * * * *", "000 * * * *", "1.5 * * * *",
		"+1 * * * *", "* * * * sat-sun", "* * * * sunday", "* * * ja *", "* * * an *", "* * jan * *", "jan * * * *", "* * * mon *", "* * * janfeb *",
		"@every 1h", "@reboot", "@", "@daily 1", "TZ=UTC * * * * *", "CRON_TZ=UTC 0 0 * * *", "0\n0 * * *", "0 0 * * *\n", "0\u00a00 * * *", "0 0 * * \u017fun",
		"0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 feb *", "0 0 30 2 */2", "0 0 31 2,4 */7", strings.Repeat("0,", 300) + "0 * * * *",
	} {
		_, err := parseCron(expr)
		require.Error(t, err, "%q", expr)
	}
	for _, expr := range []string{"0 0 30 2 1", "0 0 31 2 0-6", "0 0 29 2 *", "0 0 30 2,3 *", "0 0 */31 2 *", "0 0 31 * *", "0 0 29 2 */7"} {
		p := cronPlan(t, expr, "")
		_, ok := p.Next(time.Date(2097, 1, 1, 0, 0, 0, 0, time.UTC))
		require.True(t, ok, expr)
	}
}

func TestShortestGap(t *testing.T) {
	const day = 24 * time.Hour
	for expr, want := range map[string]time.Duration{
		"* * * * *": time.Minute, "*/15 * * * *": 15 * time.Minute, "*/7 * * * *": 4 * time.Minute, "*/35 * * * *": 25 * time.Minute,
		"0 3 * * *": day, "0 3 * * 1": day, "@yearly": day, "59 23 31 12 *": day, "0 0 29 2 */7": day, "0 1,2,23 * * *": time.Hour,
		"59 23,0 * * *": time.Hour, "0,59 0,23 * * *": time.Minute, "0,59 0,23 1 * *": time.Minute, "30 0,12 * * *": 12 * time.Hour,
		"0,1 12 * * *": time.Minute, "30 12,13 5 5 *": time.Hour, "0 0,23 * * *": time.Hour, "10 1,22 * * *": 3 * time.Hour,
	} {
		require.Equal(t, want, cronPlan(t, expr, "Europe/Berlin").cron.shortestGap(), expr)
	}
}

// TestShortestGapIsBetweenSlots compares the gap with that of slots which fire on every day, and with slots as they are.
func TestShortestGapIsBetweenSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := cronText(t)
		fields := strings.Fields(text)
		gap := cronPlan(t, text, "").cron.shortestGap()
		require.Equal(t, closest(t, cronPlan(t, fields[0]+" "+fields[1]+" * * *", "")), gap, text)
		require.GreaterOrEqual(t, closest(t, cronPlan(t, text, "")), gap, text)
	})
}

// closest returns the shortest time between two slots of three days, or between two slots that follow each other later.
func closest(t *rapid.T, p *Plan) time.Duration {
	at, ok := p.Next(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	require.True(t, ok)
	shortest, end := MaxInterval, at.AddDate(0, 0, 3)
	for again := true; again; again = at.Before(end) {
		next, ok := p.Next(at)
		require.True(t, ok)
		shortest, at = min(shortest, next.Sub(at)), next
	}
	return shortest
}

// TestFilled: filling in defaults changes nothing but what is not set.
func TestFilled(t *testing.T) {
	full := Spec{
		Name: "x", Task: "y", Cron: "@daily", Timezone: "Asia/Singapore", Payload: []byte(`{"a":1}`), Jitter: "90s", Missed: "all",
		CatchUp: "36h", Overlap: "queue", From: "2026-12-01T00:00:00Z", Until: "2027-12-01T00:00:00Z",
	}
	for _, c := range []struct{ in, want Spec }{
		{Spec{Name: "x", Task: "y", Cron: "@daily"}, Spec{
			Name: "x", Task: "y", Cron: "@daily", Timezone: "UTC", Payload: []byte(`{}`), Jitter: "0s", Missed: "one", CatchUp: "1d", Overlap: "skip",
		}},
		{Spec{Name: "x", Task: "y", After: "1m", CatchUp: "0s"}, Spec{
			Name: "x", Task: "y", After: "1m", Payload: []byte(`{}`), Jitter: "0s", Missed: "one", CatchUp: "0s", Overlap: "skip",
		}},
		{full, full},
	} {
		p, err := New(c.in)
		require.NoError(t, err)
		require.Equal(t, c.want, p.Filled())
		again, err := New(p.Filled())
		require.NoError(t, err)
		require.Equal(t, p.Words(), again.Words())
		again.spec, p.spec = Spec{}, Spec{}
		if p.cron != nil {
			again.cron.zone, p.cron.zone = nil, nil
		}
		require.Equal(t, p, again)
	}
}
