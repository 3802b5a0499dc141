package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzNew checks that whatever New accepts has slots that rise, that finding them takes a bounded number of steps, and that Words
// says something.
func FuzzNew(f *testing.F) {
	for _, seed := range []struct{ cron, every, zone, jitter, from, until string }{
		{"0 3 * * *", "", "Asia/Singapore", "30s", "", ""},
		{"0 0 29 2 */7", "", "Europe/Berlin", "", "2026-12-01T00:00:00Z", "9999-01-01T00:00:00Z"},
		{"*/7 1-23/5 31 1,3-dec/2 *", "", "America/Havana", "1m", "", ""},
		{"@weekly", "", "UTC", "23h", "", ""},
		{"", "1h30m", "", "1ms", "2026-12-01T08:00:00+08:00", ""},
		{"0 0 30 2 *", "x", "Local", "-1s", "2026-13-01T00:00:00Z", "y"},
	} {
		f.Add(seed.cron, seed.every, seed.zone, seed.jitter, seed.from, seed.until, int64(1774656000))
	}
	f.Fuzz(func(t *testing.T, cron, every, zone, jitter, from, until string, at int64) {
		p, err := New(Spec{Name: "x", Task: "y", Cron: cron, Every: every, Timezone: zone, Jitter: jitter, From: from, Until: until})
		if err != nil {
			var bad *SpecError
			require.ErrorAs(t, err, &bad)
			require.NotEmpty(t, bad.Problems)
			return
		}
		require.NotEmpty(t, p.Words())
		looks := 0
		if p.cron != nil {
			lookup := p.cron.zone.lookup
			p.cron.zone.lookup = func(t int64) int64 { looks++; return lookup(t) }
			first, ok := p.cron.nextDay(0)
			require.True(t, ok, "it fires")
			second, ok := p.cron.nextDay(first + 1)
			require.True(t, ok && second-first <= 40*366, "no search for a day goes further")
		}
		after := time.Unix(at, 0)
		for range 20 {
			looks = 0
			next, ok := p.Next(after)
			require.Less(t, looks, 12*turns)
			if !ok {
				return
			}
			require.True(t, next.After(after))
			require.Equal(t, next, next.Truncate(time.Millisecond))
			require.False(t, !p.until.IsZero() && !next.Before(p.until) || next.Before(p.from) || next.Year() > MaxYear)
			require.LessOrEqual(t, p.slot(next).RunAt.Sub(next), p.jitter)
			after = next
		}
	})
}
