package work_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig runs a loop in a bubble of virtual time, and records its calls.
type rig struct {
	loop    *work.Loop
	metrics *telemetry.Metrics
	logs    bytes.Buffer
	stop    func() time.Duration // ends Run, and returns how long that took

	mu    sync.Mutex
	calls []time.Time
	next  func(context.Context) (work.Seen, error) // what the next call does
}

// then sets what the next calls do.
func (r *rig) then(next func(context.Context) (work.Seen, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next = next
}

// called returns when calls were made since it was asked last.
func (r *rig) called() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// run starts a loop whose calls are next.
func run(t *testing.T, next func(context.Context) (work.Seen, error)) *rig {
	t.Helper()
	r := &rig{metrics: telemetry.NewMetrics(prometheus.NewRegistry()), next: next}
	r.loop = work.New(work.Options{
		Name: "step", Timeout: 15 * time.Second,
		Call: func(ctx context.Context) (work.Seen, error) {
			r.mu.Lock()
			r.calls = append(r.calls, time.Now())
			next := r.next
			r.mu.Unlock()
			return next(ctx)
		},
		Poll: time.Second, Busy: 10 * time.Millisecond, Idle: 100 * time.Millisecond, Wait: 50 * time.Millisecond,
		Retry: work.Backoff{First: 100 * time.Millisecond, Last: 5 * time.Second}, Jitter: 0.2,
		Log: slog.New(slog.NewTextHandler(&r.logs, nil)), Metrics: r.metrics,
	})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		r.loop.Run(ctx)
	}()
	r.stop = func() time.Duration {
		began := time.Now()
		cancel()
		<-over
		return time.Since(began)
	}
	return r
}

// sees is a call that takes a while, or ends with its context, and then sees something.
func sees(seen work.Seen, after time.Duration) func(context.Context) (work.Seen, error) {
	return func(ctx context.Context) (work.Seen, error) {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
			return seen, nil
		case <-ctx.Done():
			return work.Seen{}, ctx.Err()
		}
	}
}

// pass lets d pass and everything come to rest.
func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// requireRests requires that the rests between calls are, in milliseconds and but for the jitter, these.
func requireRests(t *testing.T, calls []time.Time, rests ...float64) {
	t.Helper()
	for i, want := range rests {
		require.InEpsilon(t, want, calls[i+1].Sub(calls[i]).Seconds()*1000, 0.21, "rest %d", i)
	}
}

func TestRestFollowsWhatACallHasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		seen  work.Seen
		takes time.Duration
		calls float64 // in 100 s
	}{
		"nothing":                     {work.Seen{}, 0, 50},
		"something":                   {work.Seen{Found: true}, 0, 100},
		"work":                        {work.Seen{Found: true, Busy: true}, 0, 10_000},
		"work, slowly":                {work.Seen{Found: true, Busy: true}, time.Second, 50},
		"nothing, slowly":             {work.Seen{}, 2 * time.Second, 100 / 6.},
		"a wait":                      {work.Seen{Found: true, Waits: true}, 0, 105},
		"a wait, slowly":              {work.Seen{Found: true, Waits: true}, time.Second, 100 / 3.},
		"work, and something to wait": {work.Seen{Found: true, Busy: true, Waits: true}, 0, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t, sees(c.seen, c.takes))
				pass(100 * time.Second)
				r.stop()
				require.InEpsilon(t, c.calls, len(r.called()), 0.25)
				require.Empty(t, r.logs.String())
				require.Zero(t, testutil.ToFloat64(r.metrics.StoreErrors.WithLabelValues("step")))
			})
		})
	}
}

func TestWaitsAreLongerEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, sees(work.Seen{Waits: true}, 0))
		pass(20 * time.Second)
		requireRests(t, r.called(), 50, 100, 200, 400, 800, 1000, 1000)
		r.then(sees(work.Seen{}, 0))
		pass(5 * time.Second)
		r.called()
		r.then(sees(work.Seen{Waits: true}, 0))
		pass(5 * time.Second)
		requireRests(t, r.called(), 50, 100)
		r.stop()
	})
}

func TestANoteIsFollowedSoonButNotEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, sees(work.Seen{}, 0))
		for range 20 {
			pass(700 * time.Millisecond)
			r.called()
			r.loop.Note()
			pass(120 * time.Millisecond)
			require.NotEmpty(t, r.called())
		}
		for range 10_000 {
			r.loop.Note()
			pass(time.Millisecond)
		}
		require.InDelta(t, 100, len(r.called()), 20, "ten a second")
		r.stop()
	})
}

func TestFailedCallsAreRepeatedEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("connection refused")
		r := run(t, func(context.Context) (work.Seen, error) { return work.Seen{}, refused })
		pass(100 * time.Second)
		calls := r.called()
		requireRests(t, calls, 100, 200, 400, 800, 1600, 3200, 5000, 5000)
		require.InDelta(t, len(calls), testutil.ToFloat64(r.metrics.StoreErrors.WithLabelValues("step")), 0)
		require.InDelta(t, 4, strings.Count(r.logs.String(), "connection refused"), 1, "one line, and one each 30 s")
		r.then(sees(work.Seen{}, 0))
		pass(10 * time.Second)
		require.Contains(t, r.logs.String(), "store calls succeed again")
		r.called()
		pass(100 * time.Second)
		require.InDelta(t, 50, len(r.called()), 13)
		r.stop()
	})
}

func TestACallIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, sees(work.Seen{}, time.Hour))
		pass(16 * time.Second)
		require.Len(t, r.called(), 2)
		require.InDelta(t, 1, testutil.ToFloat64(r.metrics.StoreErrors.WithLabelValues("step")), 0)
		require.Zero(t, r.stop(), "a call in progress is interrupted")
		require.InDelta(t, 1, testutil.ToFloat64(r.metrics.StoreErrors.WithLabelValues("step")), 0, "and that is no failure")
	})
}

func TestWhatWasNotedAtTheEndIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, sees(work.Seen{}, 0))
		pass(50 * time.Millisecond) // a rest during which no note is followed
		r.called()
		require.Zero(t, r.stop())
		require.Empty(t, r.called())

		r = run(t, sees(work.Seen{}, 0))
		pass(50 * time.Millisecond)
		r.called()
		r.loop.Note()
		require.Zero(t, r.stop())
		require.Len(t, r.called(), 1)

		r = run(t, sees(work.Seen{}, time.Hour))
		pass(time.Second)
		r.loop.Note()
		require.Equal(t, work.LastCall, r.stop(), "for no longer than that")
	})
}
