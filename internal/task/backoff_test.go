package task_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
)

func TestDelay(t *testing.T) {
	grows := task.Retry{Backoff: task.Exponential, Min: time.Second, Max: 10 * time.Second}
	same := task.Retry{Backoff: task.Constant, Min: 4 * time.Second, Max: time.Minute}
	for _, c := range []struct {
		name      string
		retry     task.Retry
		n         int
		low, high time.Duration
	}{
		{"the first is never below min", grows, 1, time.Second, 1250 * time.Millisecond},
		{"doubled", grows, 2, 1500 * time.Millisecond, 2500 * time.Millisecond},
		{"and again", grows, 4, 6 * time.Second, 10 * time.Second},
		{"the last is never above max", grows, 5, 7500 * time.Millisecond, 10 * time.Second},
		{"however many there were", grows, math.MaxInt, 7500 * time.Millisecond, 10 * time.Second},
		{"constant", same, 1, 4 * time.Second, 5 * time.Second},
		{"constant, later", same, 50, 4 * time.Second, 5 * time.Second},
		{"never nothing", task.Retry{}, 1, time.Millisecond, time.Millisecond},
		{"a max below min is min", task.Retry{Min: time.Second, Max: 1}, 9, time.Second, time.Second},
		{"no attempt yet", grows, 0, time.Second, 1250 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.low, c.retry.Delay(c.n, 0))
			require.Equal(t, c.low+(c.high-c.low)/2, c.retry.Delay(c.n, 0.5))
			require.Equal(t, c.high, c.retry.Delay(c.n, 1))
			require.Equal(t, c.low, c.retry.Delay(c.n, math.NaN()))
			require.Equal(t, c.high, c.retry.Delay(c.n, math.Inf(1)))
		})
	}
}

func TestDelayOfAnEndingWithItsOwn(t *testing.T) {
	r := task.Retry{
		Backoff: task.Exponential, Min: time.Second, Max: 10 * time.Second,
		After: map[task.Verdict]time.Duration{task.Lost: 5 * time.Minute, task.Stalled: 0},
	}
	for _, n := range []int{1, 5} {
		require.Equal(t, 5*time.Minute, r.DelayAfter(task.Lost, n, 0), "max does not bound it")
		require.Equal(t, 5*time.Minute+30*time.Second, r.DelayAfter(task.Lost, n, 1))
		require.Equal(t, time.Millisecond, r.DelayAfter(task.Stalled, n, 0), "nor does min")
		require.Equal(t, r.Delay(n, 0.3), r.DelayAfter(task.Failed, n, 0.3))
	}
}

func TestDelayStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		durations := rapid.Map(rapid.Int64Range(1, math.MaxInt64), func(n int64) time.Duration { return time.Duration(n) })
		r := task.Retry{
			Backoff: rapid.SampledFrom([]task.Backoff{task.Exponential, task.Constant}).Draw(t, "backoff"),
			Min:     durations.Draw(t, "min"),
			Max:     durations.Draw(t, "max"),
		}
		d := r.Delay(rapid.Int().Draw(t, "n"), rapid.Float64Range(0, 1).Draw(t, "jitter"))
		require.GreaterOrEqual(t, d, max(r.Min, time.Millisecond))
		require.LessOrEqual(t, d, max(r.Max, r.Min, time.Millisecond))
	})
}

func TestDelayAskedForByTheTarget(t *testing.T) {
	row := func(retry task.Retry, after time.Duration, jitter float64) time.Duration {
		p := &task.Policy{Timeout: time.Second, Retry: retry}
		o := task.Outcome{Verdict: task.Deferred, RetryAfter: after}
		return task.Decide(&task.Task{State: task.StateRunning, Attempt: 1}, p, o, 0, jitter).Delay
	}
	short := task.Retry{MaxDeferrals: 1, Backoff: task.Exponential, Min: time.Second, Max: time.Minute}
	long := task.Retry{MaxDeferrals: 1, Backoff: task.Exponential, Min: time.Second, Max: 5 * time.Hour}
	for _, c := range []struct {
		name      string
		retry     task.Retry
		after     time.Duration
		low, high time.Duration
	}{
		{"never earlier than asked, and a tenth later at most", short, 20 * time.Second, 20 * time.Second, 22 * time.Second},
		{"beyond max if asked", short, 10 * time.Minute, 10 * time.Minute, 11 * time.Minute},
		{"never below min", short, 1, time.Second, 1100 * time.Millisecond},
		{"never above an hour", short, 59 * time.Minute, 59 * time.Minute, time.Hour},
		{"where max is not longer", long, 3 * time.Hour, 3 * time.Hour, 3*time.Hour + 18*time.Minute},
		{"and then max", long, math.MaxInt64, 5 * time.Hour, 5 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.low, row(c.retry, c.after, 0))
			require.Equal(t, c.high, row(c.retry, c.after, 1))
		})
	}
}
