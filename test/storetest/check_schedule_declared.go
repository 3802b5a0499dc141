package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
)

// What an application may declare by SQL is what schedule.New accepts.

func scheduleDeclaredChecks() []Check {
	return []Check{
		{"what may be declared: picked", declaredPicked},
		{"what may be declared: generated", ruleScheduleDeclared},
		{"a mistake is refused with its reason", declaredReason},
	}
}

// compare asserts that the store accepts a schedule if schedule.New does, and reports whether.
func (r *rig) compare(s store.ScheduleSpec) bool {
	r.t.Helper()
	_, want := schedule.New(s)
	got := r.AddSchedule(r.t, s)
	if (want == nil) != (got == nil) {
		require.Fail(r.t, "the two differ", "%+v\nGo:    %v\nstore: %v", s, want, got)
	}
	return want == nil
}

func declaredPicked(t testing.TB, h Harness) {
	r := newRig(t, h)
	n := 0
	add := func(change func(*store.ScheduleSpec)) {
		n++
		s := store.ScheduleSpec{Name: fmt.Sprint("s", n), Task: kind}
		change(&s)
		r.compare(s)
	}
	for _, text := range []string{
		"0 3 * * *", "* * * * *", " \t0  3\t* * * ", "*/1 * * * *", "*/60 * * * *", "*/61 * * * *", "*/0 * * * *", "60 * * * *",
		"59 23 31 12 7", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 0 *", "0 0 * 13 *", "0 0 * * 8", "0 0 * * */7", "0 0 * * */8",
		"0 0 30 2 *", "0 0 29 2 *", "0 0 31 4,6,9,11 *", "0 0 31 4,5 *", "0 0 30 2 1", "0 0 30 2 */2", "0 0 */31 2 *", "0 0 30-31 feb *",
		"0 0 * jan-mar MON-Fri", "0 0 * jan-13 *", "0 0 * * fri-sun", "0 0 * * 5-7", "0 0 * * sun-sat/2", "0 0 * anf *", "0 0 * ja *",
		"1/2 * * * *", "1-5/2 * * * *", "5-1 * * * *", "1-5/9 * * * *", "1,,2 * * * *", ",1 * * * *", "1, * * * *", "001 * * * *",
		"-1 * * * *", "1- * * * *", "* * * *", "* * * * * *", "", " ", "*", "? * * * *", "0 0 L * *", "0 0 * * 1#2", "@daily", " @DAILY ",
		"@Midnight", "@hourly", "@weekly", "@monthly", "@yearly", "@annually", "@reboot", "@every 1h", "@", "@daily x", "*5 * * * *",
		"*-5 * * * *", "*/5/5 * * * *", "1-2-3 * * * *", "TZ=UTC 0 3 * * *", "0 3 * * *\n", "0 3 * * ſun", "0 0 1 oKt *", "٣ * * * *",
		strings.Repeat("0,", 245) + "0 3 * * *" + strings.Repeat(" ", 12), strings.Repeat("0,", 245) + "0 3 * * *" + strings.Repeat(" ", 13),
	} {
		for _, jitter := range []string{"", "59s", "1m", "23h59m59s999ms", "1d", "6d", "27d", "28d", "31d", "365d", "366d"} {
			if jitter == "" || !strings.Contains(text, "@") {
				add(func(s *store.ScheduleSpec) { s.Cron, s.Jitter = text, jitter })
			}
		}
	}
	for _, text := range []string{
		"1s", "999ms", "1000ms", "0s", "366d", "366d1ms", "365d23h59m59s1000ms", "1h30m", "30m1h", "1.5h", "1", "1 h", " 1h", "1h ", "-1h",
		"+1h", "h", "1H", "1x", "5ms", "1s5ms", "1m5ms", "5ms5s", "1d1d", "00001s", "99999999999999999999s", "99999999999d", "1us", "1m0s0ms", "!",
	} {
		for _, field := range []func(*store.ScheduleSpec){
			func(s *store.ScheduleSpec) { s.Every = text },
			func(s *store.ScheduleSpec) { s.After = text },
			func(s *store.ScheduleSpec) { s.Every, s.Jitter = "366d", text },
			func(s *store.ScheduleSpec) { s.Every, s.Jitter = text, text },
			func(s *store.ScheduleSpec) { s.After, s.CatchUp = "1h", text },
		} {
			add(field)
		}
	}
	for _, text := range []string{
		"2026-12-01T00:00:00Z", "2026-12-01T08:00:00.123+08:00", "2026-12-01T08:00:00.1234Z", "2026-12-01T08:00:00,1Z", "2026-12-01T8:00:00Z",
		"2026-12-01 00:00:00Z", "2026-12-01T00:00:00", "2026-12-01T00:00:00z", "2026-12-01t00:00:00Z", "2026-02-29T00:00:00Z", "2028-02-29T00:00:00Z",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-12-00T00:00:00Z", "2026-12-32T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T23:60:00Z",
		"2026-12-01T23:59:60Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01", "1969-12-31T23:59:00-00:01",
		"9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00Z", "2026-12-01T00:00:00+14:59", "2026-12-01T00:00:00+15:00",
		"2026-12-01T00:00:00+08", "2026-12-01T00:00:00.Z", "2026-12-01T00:00:00+08:60", "2026-12-01", "now", "Z", "infinity",
	} {
		add(func(s *store.ScheduleSpec) { s.Every, s.From = "1h", text })
		add(func(s *store.ScheduleSpec) { s.Cron, s.Until = "@daily", text })
		add(func(s *store.ScheduleSpec) { s.Every, s.From, s.Until = "1h", "2026-12-01T00:00:00Z", text })
	}
	for _, zone := range []string{"", "UTC", "Asia/Singapore", "asia/singapore", "Local", "Mars/Phobos", "Etc/GMT+8", "../UTC", "+08:00"} {
		add(func(s *store.ScheduleSpec) { s.Cron, s.Timezone = "@daily", zone })
		add(func(s *store.ScheduleSpec) { s.Every, s.Timezone = "1h", zone })
	}
	for _, change := range []func(*store.ScheduleSpec){
		func(*store.ScheduleSpec) {},
		func(s *store.ScheduleSpec) { s.Cron, s.Every = "@daily", "1h" },
		func(s *store.ScheduleSpec) { s.After, s.Every = "1h", "1h" },
		func(s *store.ScheduleSpec) { s.Every, s.Name = "1h", "" },
		func(s *store.ScheduleSpec) { s.Every, s.Task = "1h", "" },
		func(s *store.ScheduleSpec) { s.Every, s.Name = "1h", strings.Repeat("ü", 128) },
		func(s *store.ScheduleSpec) { s.Every, s.Task = "1h", strings.Repeat("x", 256) },
		func(s *store.ScheduleSpec) { s.Every, s.Payload = "1h", []byte(`[]`) },
		func(s *store.ScheduleSpec) { s.Every, s.Payload = "1h", []byte(`{"a": `) },
		func(s *store.ScheduleSpec) { s.Every, s.Missed = "1h", "One" },
		func(s *store.ScheduleSpec) { s.Every, s.Missed = "1h", "none" },
		func(s *store.ScheduleSpec) { s.Every, s.Overlap = "1h", "all" },
		func(s *store.ScheduleSpec) { s.Every, s.Overlap = "1h", "queue" },
	} {
		add(change)
	}
}

// ruleScheduleDeclared compares the two over generated expressions, about half of which are wrong.
func ruleScheduleDeclared(t testing.TB, h Harness) {
	r := newRig(t, h)
	n := 1000
	if os.Getenv(fullLength) != "" {
		n = 20_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := cronGenerator{rand.New(rand.NewPCG(seed, 1))}
	valid := 0
	for i := range n {
		s := store.ScheduleSpec{Name: fmt.Sprint("s", i), Task: kind, Cron: g.expression()}
		if g.IntN(4) == 0 {
			s.Jitter = g.of("30s", "1m", "5m", "59m", "1h", "23h59m", "1d", "2d", "7d", "27d", "31d", "366d")
		}
		if r.compare(s) {
			valid++
		}
	}
	require.Greater(t, valid, n/10)
	require.Less(t, valid, n*9/10)
}

// cronGenerator makes cron expressions.
type cronGenerator struct{ *rand.Rand }

func (g cronGenerator) of(texts ...string) string { return texts[g.IntN(len(texts))] }

func (g cronGenerator) expression() string {
	var words []string
	for _, f := range []struct {
		lo, hi int
		names  []string
	}{
		{0, 59, nil},
		{0, 23, nil},
		{1, 31, nil},
		{1, 12, []string{"jan", "Feb", "apr", "JUN", "nov", "dec"}},
		{0, 7, []string{"sun", "Mon", "WED", "fri", "sat"}},
	} {
		items := []string{g.item(f.lo, f.hi, f.names)}
		for g.IntN(4) == 0 {
			items = append(items, g.item(f.lo, f.hi, f.names))
		}
		words = append(words, strings.Join(items, ","))
	}
	if g.IntN(4) == 0 { // dates that few months have
		words[2], words[3] = g.of("30", "31", "29", "30,31", "29-31", "*/30"), g.of("2", "feb", "4,6", "2-2", "*/3", "2,4")
		words[4] = g.of("*", "*", "*/3", "1")
	}
	text := strings.Join(words, g.of(" ", " ", "  ", "\t"))
	if g.IntN(6) == 0 { // one character less, or another
		at := g.IntN(len(text))
		text = text[:at] + g.of("", "", "*", "/", "-", ",", "7", "x", " ") + text[at+1:]
	}
	return text
}

func (g cronGenerator) item(lo, hi int, names []string) string {
	value := func() string {
		if names != nil && g.IntN(3) == 0 {
			return g.of(names...)
		}
		if g.IntN(25) == 0 {
			return fmt.Sprint(hi + 1)
		}
		return fmt.Sprint(lo + g.IntN(hi-lo+1))
	}
	step := func() string { return fmt.Sprint(g.IntN(hi+2) + g.IntN(2)) }
	switch g.IntN(7) {
	case 0, 1:
		return "*"
	case 2:
		return "*/" + step()
	case 3:
		return fmt.Sprint(lo+g.IntN((hi-lo)/2+1)) + "-" + fmt.Sprint((lo+hi+1)/2)
	case 4:
		return value() + "-" + value() + g.of("", "/"+step())
	}
	return value()
}

func declaredReason(t testing.TB, h Harness) {
	r := newRig(t, h)
	for cron, reason := range map[string]string{"0 0 30 2 *": "never fires", "0 3 * *": "five fields", "0 3 * * 8": "day of week"} {
		require.ErrorContains(t, r.AddSchedule(t, store.ScheduleSpec{Name: "a", Task: kind, Cron: cron}), reason)
	}
	require.ErrorContains(t, r.AddSchedule(t, store.ScheduleSpec{Name: "a", Task: kind, Cron: "@daily", Timezone: "Mars/Phobos"}), "time zone")
	require.ErrorContains(t, r.AddSchedule(t, store.ScheduleSpec{Name: "a", Task: kind, Every: "1h", Jitter: "1h"}), "jitter")
	require.Empty(t, r.due())
}
