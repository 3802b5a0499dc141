package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// scene runs a collector over read in a synctest bubble; scrape gives what Prometheus would see.
func scene(
	t *testing.T, read func(context.Context) (StoreStats, error),
	test func(scrape func() string, failures prometheus.Counter),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		failures := prometheus.NewCounter(prometheus.CounterOpts{Name: "errors"})
		c := NewStoreCollector(read, failures, nil, slog.New(slog.DiscardHandler))
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(c)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		test(func() string {
			families, err := registry.Gather()
			require.NoError(t, err)
			var b strings.Builder
			for _, f := range families {
				for _, m := range f.GetMetric() {
					b.WriteString(f.GetName())
					for _, l := range m.GetLabel() {
						fmt.Fprintf(&b, " %s=%s", l.GetName(), l.GetValue())
					}
					fmt.Fprintf(&b, " %v\n", m.GetGauge().GetValue())
				}
			}
			return b.String()
		}, failures)
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestStoreCollectorShowsTheStore(t *testing.T) {
	read := func(context.Context) (StoreStats, error) {
		return StoreStats{
			Waiting:       []WaitingCount{{"a", "pending", 3}, {"a", "retry_pending", 1}},
			OldestDue:     map[string]time.Duration{"a": 1500 * time.Millisecond},
			Orphans:       map[string]int64{"gone": 2},
			RegionOrphans: map[string]int64{"sg": 120},
			AgentsPresent: 4,
			BatchTasks:    map[string]int64{"waiting": 190, "succeeded": 10},

			ParkedSchedules:  1,
			BlockedSequences: map[string]int64{"a": 2},
		}, nil
	}
	scene(t, read, func(scrape func() string, _ prometheus.Counter) {
		require.Equal(t, strings.Join([]string{
			"leasehold_store_agents_present 4",
			"leasehold_store_batch_tasks state=succeeded 10",
			"leasehold_store_batch_tasks state=waiting 190",
			"leasehold_store_counted_timestamp_seconds 9.466848e+08",
			"leasehold_store_oldest_due_seconds type=a 1.5",
			"leasehold_store_orphans type=gone 2",
			"leasehold_store_region_orphans region=sg 120",
			"leasehold_store_schedules_parked 1",
			"leasehold_store_sequences_blocked type=a 2",
			"leasehold_store_waiting state=pending type=a 3",
			"leasehold_store_waiting state=retry_pending type=a 1", "",
		}, "\n"), scrape())
	})
}

func TestStoreCollectorAsksSeldom(t *testing.T) {
	var asked atomic.Int32
	read := func(context.Context) (StoreStats, error) {
		return StoreStats{AgentsPresent: int(asked.Add(1))}, nil
	}
	scene(t, read, func(scrape func() string, _ prometheus.Counter) {
		require.EqualValues(t, 0, asked.Load(), "no scrape yet")
		for range 10 {
			require.Contains(t, scrape(), "leasehold_store_agents_present 1\n")
		}
		time.Sleep(statsEvery)
		require.Contains(t, scrape(), "leasehold_store_agents_present 2\n")
	})
}

// However often it is scraped, the store spends a hundredth of its time on it.
func TestStoreCollectorAsksTheLessOftenTheLongerItTakes(t *testing.T) {
	const takes = 400 * time.Millisecond
	var asked atomic.Int32
	read := func(context.Context) (StoreStats, error) {
		time.Sleep(takes)
		return StoreStats{AgentsPresent: int(asked.Add(1))}, nil
	}
	scene(t, read, func(scrape func() string, _ prometheus.Counter) {
		began := time.Now()
		for time.Since(began) < time.Hour {
			require.Contains(t, scrape(), "leasehold_store_counted_timestamp_seconds", "the figures stay until there are new ones")
			time.Sleep(5 * time.Second)
		}
		share := float64(asked.Load()) * takes.Seconds() / time.Since(began).Seconds()
		require.Less(t, share, 0.0101)
		require.Greater(t, share, 0.008)
	})
}

func TestStoreCollectorLeavesOutWhatFailed(t *testing.T) {
	var broken atomic.Bool
	read := func(context.Context) (StoreStats, error) {
		if broken.Load() {
			return StoreStats{}, errors.New("no connection")
		}
		return StoreStats{AgentsPresent: 1}, nil
	}
	scene(t, read, func(scrape func() string, failures prometheus.Counter) {
		require.NotEmpty(t, scrape())
		broken.Store(true)
		time.Sleep(statsEvery)
		require.Empty(t, scrape())
		require.InDelta(t, 1, testutil.ToFloat64(failures), 0)
		require.Empty(t, scrape())
		require.InDelta(t, 1, testutil.ToFloat64(failures), 0, "a failing store is not asked more often")
		broken.Store(false)
		time.Sleep(statsEvery)
		require.NotEmpty(t, scrape())
	})
}

func TestStoreCollectorDoesNotHoldUpAScrape(t *testing.T) {
	var slow atomic.Bool
	read := func(ctx context.Context) (StoreStats, error) {
		if slow.Load() {
			<-ctx.Done()
			return StoreStats{}, ctx.Err()
		}
		return StoreStats{AgentsPresent: 1}, nil
	}
	scene(t, read, func(scrape func() string, failures prometheus.Counter) {
		scrape()
		slow.Store(true)
		time.Sleep(statsEvery)
		start := time.Now()
		require.NotEmpty(t, scrape(), "the figures from before are still good")
		require.Equal(t, scrapeWait, time.Since(start))
		time.Sleep(statsTimeout)
		require.Empty(t, scrape(), "the question timed out")
		require.InDelta(t, 1, testutil.ToFloat64(failures), 0)
	})
}

func TestStoreCollectorShowsNothingOld(t *testing.T) {
	read := func(context.Context) (StoreStats, error) { return StoreStats{AgentsPresent: 1}, nil }
	synctest.Test(t, func(t *testing.T) {
		c := NewStoreCollector(read, prometheus.NewCounter(prometheus.CounterOpts{Name: "errors"}), nil, slog.Default())
		c.refresh(t.Context())
		stats, _ := c.latest()
		require.NotNil(t, stats)
		time.Sleep(statsEvery + statsKept + time.Second)
		stats, _ = c.latest()
		require.Nil(t, stats, "the collector no longer runs")
	})
}

func TestStoreCollectorFoldsMadeUpTypes(t *testing.T) {
	read := func(context.Context) (StoreStats, error) {
		s := StoreStats{Orphans: map[string]int64{"other": 1000}, OldestDue: map[string]time.Duration{}, RegionOrphans: map[string]int64{}}
		for i := range 100 {
			name := fmt.Sprintf("made-up-%03d", i)
			s.Orphans[name], s.RegionOrphans[name] = int64(i+1), int64(i+1)
			s.OldestDue[name] = time.Duration(i+1) * time.Second
			s.Waiting = append(s.Waiting, WaitingCount{name, "pending", int64(i + 1)})
		}
		for i := range 30 {
			s.Waiting = append(s.Waiting, WaitingCount{fmt.Sprintf("declared-%d", i), "pending", 1})
		}
		return s, nil
	}
	scene(t, read, func(scrape func() string, _ prometheus.Counter) {
		out := scrape()
		require.Equal(t, 20, strings.Count(out, "leasehold_store_orphans"),
			"nineteen made up, and `other`, which is also a type")
		require.Contains(t, out, "leasehold_store_orphans type=other 4321\n") // 1000 + 1 + 2 + … + 81
		require.Equal(t, 21, strings.Count(out, "leasehold_store_region_orphans"), "twenty made up, and the rest")
		require.Contains(t, out, "leasehold_store_region_orphans region=other 3240\n")
		require.Contains(t, out, "leasehold_store_oldest_due_seconds type=other 81\n")
		require.Contains(t, out, "leasehold_store_waiting state=pending type=other 3321\n")
		require.Contains(t, out, "leasehold_store_waiting state=pending type=declared-29 1\n",
			"declared types are never folded")
	})
}
