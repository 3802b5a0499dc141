package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

// TestManySchedules has ten thousand schedules (at full size): what they cost while none is due, how late slots are that are spread
// over time, and how long all of them take at one midnight. The bounds leave room for a busy machine with the race detector; what
// was measured on a quiet one is in docs/performance.md.
func TestManySchedules(t *testing.T) {
	t.Parallel()
	schedules, watched, ahead := harness.Sized(1000, 10_000), harness.Sized(5, 20), harness.Sized(5, 20)
	h := newHouse(t, 1)
	a := h.agent("agent", 0, "", "")
	h.exec(`INSERT INTO leasehold.schedule (name, task, cron) SELECT 'idle ' || n, 'nobody', '0 0 1 1 *' FROM generate_series(1, $1) AS n`, schedules)
	h.settled()
	used, begin := processorTime(t, a), time.Now()
	harness.Until(t, workWithin, "some time has passed", func() bool { return time.Since(begin) > time.Duration(watched)*time.Second })
	idle := 100 * (processorTime(t, a) - used).Seconds() / time.Since(begin).Seconds()

	spread := max(schedules/100, 1)
	h.exec(`UPDATE leasehold.schedule SET cron = NULL, every = $1::integer || 's', from_at = to_char(
		date_trunc('second', now() AT TIME ZONE 'UTC') + split_part(name, ' ', 2)::integer * interval '10 milliseconds' + interval '5 seconds',
		'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`, spread)
	want := int64(schedules)
	harness.Until(t, workWithin, "each has fired", func() bool { return h.number(`SELECT count(*) FROM leasehold.task`) >= want })
	const late = `percentile_cont($1) WITHIN GROUP (ORDER BY extract(epoch FROM created_at - (payload->>'slot')::timestamptz) * 1000)::bigint`
	p99, p50 := h.number(`SELECT `+late+` FROM leasehold.task`, 0.99), h.number(`SELECT `+late+` FROM leasehold.task`, 0.5)

	h.exec(`DELETE FROM leasehold.task`)
	h.exec(`UPDATE leasehold.schedule SET every = '1d', from_at = to_char(date_trunc('second', now() AT TIME ZONE 'UTC') + $1 * interval '1 second',
		'YYYY-MM-DD"T"HH24:MI:SS"Z"')`, ahead)
	harness.Until(t, workWithin, "each has fired at midnight", func() bool { return h.number(`SELECT count(*) FROM leasehold.task`) >= want })
	midnight := h.number(`SELECT (max(extract(epoch FROM created_at - (payload->>'slot')::timestamptz)) * 1000)::bigint FROM leasehold.task`)
	require.Equal(t, want, h.number(`SELECT count(DISTINCT created_by) FROM leasehold.task`))

	t.Logf("%d schedules: idle %.2f%% of a core; late by %d ms p50, %d ms p99; one midnight in %d ms", schedules, idle, p50, p99, midnight)
	require.Less(t, idle, 10.0)
	require.Less(t, p99, int64(5000))
	require.Less(t, midnight, int64(20_000))
}

// settled waits until no schedule is due.
func (h *house) settled() {
	h.t.Helper()
	harness.Until(h.t, workWithin, "no schedule is due", func() bool {
		return h.number(`SELECT count(*) FROM leasehold.schedule WHERE next_at <= now()`) == 0
	})
}

// processorTime is the time that a process has used of all processors, from /proc: user and system.
func processorTime(t *testing.T, a *harness.Agent) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.PID()))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), ") ")
	require.True(t, found)
	fields := strings.Fields(rest)
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime, of a hundredth of a second on Linux
		n, err := strconv.ParseInt(f, 10, 64)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
