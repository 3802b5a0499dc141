package ops

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// activities is a store with an activity to be read.
type activities func(step store.ActivityStep, intervals int, typ string) (store.Activity, error)

func (a activities) Activity(_ context.Context, step store.ActivityStep, intervals int, typ string) (store.Activity, error) {
	return a(step, intervals, typ)
}

func sumOf(at time.Time, typ string, v task.Verdict, n int64, bucket int) store.ActivitySum {
	s := store.ActivitySum{At: at, Type: typ}
	s.Outcomes[store.OutcomePlace(v)], s.Latency[bucket] = n, n
	return s
}

func TestReadActivity(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 30, 20, 0, time.UTC)
	s := activities(func(step store.ActivityStep, intervals int, typ string) (store.Activity, error) {
		require.Equal(t, store.ActivityMinute, step)
		require.Equal(t, 60, intervals)
		require.Empty(t, typ)
		a := store.Activity{Now: now}
		var last time.Time
		a.From, last = store.ActivityWindow(step, intervals, now)
		a.Rows = []store.ActivitySum{
			sumOf(a.From.Add(-time.Minute), "a", task.Succeeded, 1000, 0),
			sumOf(a.From, "", task.Failed, 2, 0), sumOf(a.From, "a", task.Succeeded, 5, 3), sumOf(a.From, "b", task.TimedOut, 10, 4),
			sumOf(last, "a", task.Cancelled, 1, 5), sumOf(last, "b", task.Drained, 7, 5),
			sumOf(last.Add(time.Minute), "a", task.Succeeded, 1000, 0),
		}
		return a, nil
	})
	a, err := ReadActivity(t.Context(), s, LastHour, "")
	require.NoError(t, err)
	require.Len(t, a.Intervals, 60)
	require.Equal(t, time.Date(2026, 1, 1, 11, 31, 0, 0, time.UTC), a.Intervals[0].At)
	require.Equal(t, time.Date(2026, 1, 1, 12, 30, 0, 0, time.UTC), a.Intervals[59].At)
	require.Equal(t, 60, a.StepS)
	require.Equal(t, int64(25), a.Total.Ended)
	require.Equal(t, int64(25), a.Total.Started)
	require.Equal(t, map[task.Verdict]int64{task.Failed: 2, task.Succeeded: 5, task.TimedOut: 10}, a.Intervals[0].Outcomes)
	require.Empty(t, a.Intervals[30].Outcomes)
	require.Nil(t, a.Intervals[30].P99)
	require.Len(t, a.Types, 2)
	require.Equal(t, "b", a.Types[0].Type, "the one with the most attempts")
	require.Equal(t, int64(17), a.Types[0].Ended)
	require.Equal(t, []int64{10, 7}, []int64{a.Types[0].Ends[0], a.Types[0].Ends[59]})
	require.Equal(t, []int64{10, 0}, []int64{a.Types[0].Failed[0], a.Types[0].Failed[59]})
	require.Equal(t, []int64{0, 0}, []int64{a.Types[1].Failed[0], a.Types[1].Failed[59]}, "neither a success nor a cancellation")
	require.Equal(t, int64(2), a.Other.Ended)

	broken := activities(func(store.ActivityStep, int, string) (store.Activity, error) {
		return store.Activity{}, errors.New("out of reach")
	})
	_, err = ReadActivity(t.Context(), broken, LastTwoDays, "a")
	require.Error(t, err)
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	var n store.ActivityCounts
	require.Nil(t, Quantile(n.Latency[:], 0.5))
	n.Latency[4] = 100 // 10 to 20 ms
	require.InDelta(t, 0.015, *Quantile(n.Latency[:], 0.5), 1e-9)
	require.InDelta(t, 0.0199, *Quantile(n.Latency[:], 0.99), 1e-9)
	n.Latency[0] = 900 // up to 1 ms
	require.InDelta(t, 0.0005, *Quantile(n.Latency[:], 0.45), 1e-4)
	require.InDelta(t, 0.015, *Quantile(n.Latency[:], 0.95), 1e-9)
	n.Latency[len(n.Latency)-1] = 9000 // beyond an hour
	require.InDelta(t, 3600, *Quantile(n.Latency[:], 0.5), 1e-9)
	require.InDelta(t, 3600, *Quantile(n.Latency[:], 1), 1e-9)
}

func TestParseActivitySpan(t *testing.T) {
	t.Parallel()
	for _, good := range []ActivitySpan{LastHour, LastTwoDays} {
		got, err := ParseActivitySpan(string(good))
		require.NoError(t, err)
		require.Equal(t, good, got)
	}
	_, err := ParseActivitySpan("2h")
	require.EqualError(t, err, `invalid span "2h": use 1h or 48h`)
}
