package work_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

// maintained is a store that records when it is maintained.
type maintained struct {
	mu sync.Mutex
	at []time.Time
	do func(context.Context) (int64, error)
}

func (m *maintained) Maintain(ctx context.Context, retention time.Duration) (int64, error) {
	m.mu.Lock()
	m.at = append(m.at, time.Now())
	do := m.do
	m.mu.Unlock()
	if retention != 7*24*time.Hour {
		return 0, errors.New("another retention")
	}
	return do(ctx)
}

// then sets what maintenance does, and forgets when it took place.
func (m *maintained) then(do func(context.Context) (int64, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.do = nil, do
}

// gaps returns the times between maintenances.
func (m *maintained) gaps() (all []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.at[1:] {
		all = append(all, m.at[i+1].Sub(m.at[i]))
	}
	return all
}

func removes(n int64) func(context.Context) (int64, error) {
	return func(context.Context) (int64, error) { return n, nil }
}

func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		s := &maintained{do: removes(17)}
		metrics := telemetry.NewMetrics(prometheus.NewRegistry())
		failed := func() float64 { return testutil.ToFloat64(metrics.StoreErrors.WithLabelValues("maintain")) }
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		m := work.Maintenance{Store: s, Retention: 7 * 24 * time.Hour, Log: slog.New(slog.NewTextHandler(&logs, nil)), Metrics: metrics}
		go func() { over <- m.Run(ctx) }()
		pass(time.Second)
		require.Contains(t, logs.String(), `msg="removed finished tasks past their retention" removed=17 retention=168h0m0s`)
		logs.Reset()
		s.then(removes(0))
		pass(1000 * time.Hour)
		require.InDelta(t, 1000, len(s.gaps()), 100)
		var shortest, longest time.Duration = time.Hour, 0
		for _, gap := range s.gaps() {
			require.InDelta(t, time.Hour, gap, float64(30*time.Minute))
			shortest, longest = min(shortest, gap), max(longest, gap)
		}
		require.Greater(t, longest-shortest, 50*time.Minute, "agents that started together do not stay together")
		require.Empty(t, logs.String())
		require.Zero(t, failed())

		s.then(func(context.Context) (int64, error) { return 0, errors.New("disk full") })
		pass(5 * time.Hour)
		for _, gap := range s.gaps() {
			require.InDelta(t, 150*time.Second, gap, float64(75*time.Second))
		}
		require.Contains(t, logs.String(), "disk full")
		require.Greater(t, failed(), 48.)

		hanging := make(chan struct{}, 1)
		s.then(func(ctx context.Context) (int64, error) {
			hanging <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		<-hanging
		pass(10*time.Minute + time.Second)
		require.Contains(t, logs.String(), context.DeadlineExceeded.Error(), "it is bounded")
		<-hanging
		before := failed()
		cancel()
		require.NoError(t, <-over)
		require.InDelta(t, before, failed(), 0, "interrupted, not failed")
	})
}
