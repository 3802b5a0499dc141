package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWordsOfCron(t *testing.T) {
	for _, c := range []struct{ cron, zone, want string }{
		{"0 3 * * *", "Asia/Singapore", "at 03:00 every day, Asia/Singapore"},
		{"0 9 * * mon-fri", "", "at 09:00 on Monday to Friday, UTC"},
		{"*/15 * * * *", "", "every 15 minutes"},
		{"*/15 * * * *", "Asia/Kolkata", "every 15 minutes"},
		{"* * * * *", "", "every minute"},
		{"@hourly", "", "every hour"},
		{"@daily", "", "at 00:00 every day, UTC"},
		{"@weekly", "", "at 00:00 on Sunday, UTC"},
		{"@monthly", "", "at 00:00 on day 1 of the month, UTC"},
		{"@yearly", "Europe/Berlin", "at 00:00 on 1 January, Europe/Berlin"},
		{"5 * * * *", "", "at minute 5 of every hour"},
		{"5,35 * * * *", "", "at minutes 5 and 35 of every hour"},
		{"*/7 * * * *", "", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"},
		{"0 */2 * * *", "", "every 2 hours, UTC"},
		{"*/10 */2 * * *", "", "every 10 minutes of every 2 hours, UTC"},
		{"0 9,17 * * *", "", "at 09:00 and 17:00 every day, UTC"},
		{"0,30 9-10 * * 1,3,5", "", "at 09:00, 09:30, 10:00 and 10:30 on Monday, Wednesday and Friday, UTC"},
		{"*/15 9-17 * * mon-fri", "", "every 15 minutes from 09:00 to 17:45 on Monday to Friday, UTC"},
		{"0 8-18 * * *", "", "every hour from 08:00 to 18:00 every day, UTC"},
		{"* 9-17 * * *", "", "every minute from 09:00 to 17:59 every day, UTC"},
		{"10,20 0-3,9 * * *", "", "at minutes 10 and 20 of hours 0, 1, 2, 3 and 9 every day, UTC"},
		{"0 0 1,15 * *", "", "at 00:00 on days 1 and 15 of the month, UTC"},
		{"0 0 29 2 *", "", "at 00:00 on 29 February, UTC"},
		{"0 0 13 * fri", "", "at 00:00 on day 13 of the month, and on Friday, UTC"},
		{"0 0 */10 * fri", "", "at 00:00 on days 1, 11, 21 and 31 of the month if that is Friday, UTC"},
		{"0 0 * jan-mar *", "", "at 00:00 every day in January to March, UTC"},
		{"0 0 1 1,7 *", "", "at 00:00 on day 1 of the month in January and July, UTC"},
		{"* * * 6 *", "", "every minute every day in June, UTC"},
		{"0 0 1-31 * mon", "", "at 00:00 every day, UTC"}, // either field matches
		{"0 0-23 * * *", "Europe/Berlin", "every hour, Europe/Berlin"},
	} {
		p, err := New(Spec{Name: "x", Task: "y", Cron: c.cron, Timezone: c.zone})
		require.NoError(t, err, c.cron)
		require.Equal(t, c.want, p.Words(), c.cron)
	}
}

func TestWordsOfOthers(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		want string
	}{
		{Spec{Every: "15m"}, "every 15 minutes"},
		{Spec{Every: "1m"}, "every minute"},
		{Spec{Every: "1h30m"}, "every 1 hour 30 minutes"},
		{Spec{Every: "1d", From: "2026-12-01T03:00:00Z"}, "every day, from 2026-12-01T03:00:00Z"},
		{Spec{After: "90s"}, "1 minute 30 seconds after the end of the task before"},
		{Spec{After: "1h", Jitter: "30s"}, "1 hour after the end of the task before, up to 30 seconds later"},
		{Spec{Every: "1500ms", Until: "2027-01-01T08:00:00+08:00"}, "every 1 second 500 milliseconds, until 2027-01-01T00:00:00Z"},
	} {
		c.spec.Name, c.spec.Task = "x", "y"
		p, err := New(c.spec)
		require.NoError(t, err)
		require.Equal(t, c.want, p.Words())
	}
}
