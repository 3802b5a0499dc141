package batch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a store whose calls a test decides.
type script struct {
	mu    sync.Mutex
	folds []time.Time
	steps []time.Time
	rows  []int
	fold  func(context.Context) (store.Folded, error)
	step  func(ctx context.Context, rows int) (store.Stepped, error)
}

func (s *script) Fold(ctx context.Context, _ int) (store.Folded, error) {
	s.mu.Lock()
	s.folds = append(s.folds, time.Now())
	f := s.fold
	s.mu.Unlock()
	if f == nil {
		return store.Folded{}, nil
	}
	return f(ctx)
}

func (s *script) Step(ctx context.Context, rows int) (store.Stepped, error) {
	s.mu.Lock()
	s.steps, s.rows = append(s.steps, time.Now()), append(s.rows, rows)
	f := s.step
	s.mu.Unlock()
	if f == nil {
		return store.Stepped{}, nil
	}
	return f(ctx, rows)
}

// forget clears what was counted.
func (s *script) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.folds, s.steps, s.rows = nil, nil, nil
}

func (s *script) counts() (folds, steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.folds), len(s.steps)
}

// rig runs a loop in a bubble of virtual time; the test ends it.
type rig struct {
	loop *Loop
	logs bytes.Buffer
	m    *telemetry.Metrics
	end  func() time.Duration // and how long that took
}

func start(t *testing.T, s *script) *rig {
	t.Helper()
	return startWith(t, s, time.Second)
}

func startWith(t *testing.T, s *script, poll time.Duration) *rig {
	t.Helper()
	return startOf(t, Options{Work: s, Poll: poll})
}

func startOf(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{m: telemetry.NewMetrics(prometheus.NewRegistry())}
	o.Log, o.Metrics = slog.New(slog.NewTextHandler(&r.logs, nil)), r.m
	r.loop = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- r.loop.Run(ctx) }()
	r.end = func() time.Duration {
		began := time.Now()
		cancel()
		require.NoError(t, <-over)
		return time.Since(began)
	}
	return r
}

// after lets d pass and everything come to rest.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// takes is a call that takes d, or ends with its context.
func takes(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestAnIdleLoopAsksOnceAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		r := start(t, s)
		after(100 * time.Second)
		folds, steps := s.counts()
		require.InDelta(t, 50, folds, 15)
		require.InDelta(t, 50, steps, 15)
		require.Less(t, r.end(), time.Millisecond)
		require.Empty(t, r.logs.String())
	})
}

func TestOpenBatchesAreLookedAtEachPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fold: func(context.Context) (store.Folded, error) { return store.Folded{Batches: 3}, nil }}
		r := start(t, s)
		after(100 * time.Second)
		folds, steps := s.counts()
		require.InDelta(t, 100, folds, 25)
		require.InDelta(t, 50, steps, 15)
		r.end()
	})
}

func TestANoteIsFollowedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		r := start(t, s)
		for range 20 {
			after(700 * time.Millisecond)
			s.forget()
			r.loop.Note()
			synctest.Wait()
			after(stepGap * 6 / 5)
			folds, steps := s.counts()
			require.GreaterOrEqual(t, folds, 1)
			require.GreaterOrEqual(t, steps, 1)
		}
		r.end()
	})
}

func TestAFloodOfNotesIsNotFollowedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fold: func(context.Context) (store.Folded, error) { return store.Folded{Batches: 1}, nil }}
		r := start(t, s)
		for range 10_000 {
			r.loop.Note()
			after(time.Millisecond)
		}
		folds, steps := s.counts()
		require.InDelta(t, 100, folds, 20, "ten a second")
		require.InDelta(t, 40, steps, 10)

		s.mu.Lock()
		s.fold = func(ctx context.Context) (store.Folded, error) {
			return store.Folded{Batches: 1}, takes(ctx, time.Second)
		}
		s.mu.Unlock()
		after(time.Second)
		s.forget()
		for range 100_000 {
			r.loop.Note()
			after(time.Millisecond)
		}
		folds, _ = s.counts()
		require.InDelta(t, 33, folds, 7, "where folding is slow, less often")
		r.end()
	})
}

func TestAnOperationIsCarriedOnInSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := 10_000
		s := &script{}
		s.step = func(ctx context.Context, rows int) (store.Stepped, error) {
			if left == 0 {
				return store.Stepped{}, nil
			}
			n := min(rows, left)
			left -= n
			return store.Stepped{Found: true, Rows: n, Ended: left == 0, Verb: "cancel", Batch: 17, Done: 10_000}, takes(ctx, 20*time.Millisecond)
		}
		r := start(t, s)
		after(time.Second)
		require.Zero(t, left, "half of the time goes by between steps, and no more")
		require.Contains(t, r.logs.String(), `msg="operation ended" verb=cancel tasks=10000 batch=17`)
		require.NotContains(t, r.logs.String(), "task=")
		folds, _ := s.counts()
		require.GreaterOrEqual(t, folds, 5, "what a step did is folded")
		r.end()
	})
}

func TestStepsAreAsLargeAsTheStoreIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		each := 5 * time.Millisecond
		s := &script{}
		s.step = func(ctx context.Context, rows int) (store.Stepped, error) {
			return store.Stepped{Found: true, Rows: rows}, takes(ctx, time.Duration(rows)*each)
		}
		r := start(t, s)
		after(time.Minute) // each of the first takes seconds, and as long a rest
		s.mu.Lock()
		require.Equal(t, maxRows, s.rows[0])
		last := s.rows[len(s.rows)-1]
		each = 0
		s.mu.Unlock()
		require.LessOrEqual(t, time.Duration(last)*5*time.Millisecond, slowStep)
		after(time.Second)
		s.mu.Lock()
		require.Equal(t, maxRows, s.rows[len(s.rows)-1])
		each = time.Hour // each is cut
		s.mu.Unlock()
		after(5 * time.Minute)
		s.mu.Lock()
		require.Equal(t, minRows, s.rows[len(s.rows)-1])
		s.mu.Unlock()
		require.Positive(t, testutil.ToFloat64(r.m.StoreErrors.WithLabelValues("step")))
		require.Less(t, r.end(), time.Millisecond, "a call under way is cut")
	})
}

func TestAnOperationThatWaitsIsLookedAtEverLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{step: func(context.Context, int) (store.Stepped, error) { return store.Stepped{Found: true}, nil }}
		r := start(t, s)
		after(time.Second)
		_, first := s.counts()
		require.InDelta(t, 4, first, 1)
		after(99 * time.Second)
		_, all := s.counts()
		require.InDelta(t, 100, all, 25)
		s.forget()
		r.loop.Note()
		after(waitGap * 6 / 5)
		_, noted := s.counts()
		require.Positive(t, noted)
		r.end()
	})
}

func TestWhatFollowsAFailureIsCarriedOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed, resumed atomic.Bool
		s := &script{}
		s.fold = func(context.Context) (store.Folded, error) {
			if !failed.CompareAndSwap(true, false) {
				return store.Folded{}, nil
			}
			if resumed.Load() {
				return store.Folded{Batches: 1, Resumed: 1}, nil
			}
			return store.Folded{Batches: 1, Acted: 1, Acts: []store.BatchSummary{{ID: 17, Name: "move", State: "rollback"}}}, nil
		}
		r := startWith(t, s, time.Hour) // so no step comes without a reason
		after(10 * time.Second)
		failed.Store(true)
		r.loop.fold.Note()
		after(foldGap + stepGap*6/5)
		acted := s.folds[len(s.folds)-1]
		require.False(t, s.steps[len(s.steps)-1].Before(acted), "a step after the fold")
		require.Contains(t, r.logs.String(), "level=WARN")
		require.Contains(t, r.logs.String(), "batch=17 name=move request=rollback")

		resumed.Store(true) // tasks have come to a batch that was stopped
		after(10 * time.Second)
		failed.Store(true)
		r.loop.fold.Note()
		after(foldGap + stepGap*6/5)
		acted = s.folds[len(s.folds)-1]
		require.False(t, s.steps[len(s.steps)-1].Before(acted), "a step after the fold")
		r.end()
	})
}

func TestErrorsAreCountedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fold: func(context.Context) (store.Folded, error) { return store.Folded{}, errors.New("connection refused") }}
		r := start(t, s)
		after(100 * time.Second)
		folds, steps := s.counts()
		require.InDelta(t, 25, folds, 8, "at most about every five seconds")
		require.InDelta(t, 50, steps, 15, "the other goes on")
		require.InDelta(t, folds, testutil.ToFloat64(r.m.StoreErrors.WithLabelValues("fold")), 0)
		require.Zero(t, testutil.ToFloat64(r.m.StoreErrors.WithLabelValues("step")))
		require.InDelta(t, 4, strings.Count(r.logs.String(), "connection refused"), 1, "one line, and one each 30 s")
		s.mu.Lock()
		s.fold = nil
		s.mu.Unlock()
		after(10 * time.Second)
		s.forget()
		after(100 * time.Second)
		folds, _ = s.counts()
		require.InDelta(t, 50, folds, 15)
		r.end()
	})
}

func TestWhatAFoldDidIsLoggedEvenIfItFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{fold: func(context.Context) (store.Folded, error) {
			return store.Folded{Batches: 2, Acted: 1, Acts: []store.BatchSummary{{ID: 17, State: "cancel"}}}, errors.New("batch 18: refused")
		}}
		r := start(t, s)
		after(stepGap)
		r.end()
		require.Contains(t, r.logs.String(), "batch=17")
		require.Contains(t, r.logs.String(), "batch 18: refused")
	})
}

func TestTheLastAgentLooksOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		r := start(t, s)
		after(foldGap / 2) // before that no note is followed
		s.forget()
		r.loop.Note()
		require.Less(t, r.end(), time.Millisecond)
		folds, steps := s.counts()
		require.Equal(t, 1, folds)
		require.Equal(t, 1, steps)

		hang := &script{fold: func(ctx context.Context) (store.Folded, error) { <-ctx.Done(); return store.Folded{}, ctx.Err() }}
		r = start(t, hang)
		after(time.Second)
		r.loop.Note()
		require.Equal(t, work.LastCall, r.end(), "a store that hangs delays the end no longer")
		require.Empty(t, r.logs.String())

		half := &script{fold: func(ctx context.Context) (store.Folded, error) {
			return store.Folded{Batches: 1}, takes(ctx, time.Second)
		}}
		r = start(t, half)
		after(time.Second / 2)
		require.Equal(t, time.Second, r.end(), "counters were summed, and what follows is done yet")
		folds, _ = half.counts()
		require.Equal(t, 2, folds)
	})
}

func TestEndsAreReported(t *testing.T) {
	for state, want := range map[string]string{
		"succeeded":        `level=INFO msg="batch ended" batch=17 name=move state=succeeded round=1 total=9 succeeded=5 failed=4`,
		"partially_failed": "level=WARN", "failed": "level=WARN", "rollback_failed": "level=ERROR", "cancelled": "level=INFO",
	} {
		var out bytes.Buffer
		l := New(Options{Poll: time.Second, Log: slog.New(slog.NewTextHandler(&out, nil))})
		l.logFold(&store.Folded{Ended: 1, Ends: []store.BatchSummary{{ID: 17, Name: "move", State: state, Round: 1, Total: 9, Succeeded: 5, Failed: 4}}})
		require.Contains(t, out.String(), want)
		require.NotContains(t, out.String(), "cancelled=")
		require.Equal(t, 1, strings.Count(out.String(), "\n"))
	}
	var out bytes.Buffer
	l := New(Options{Poll: time.Second, Log: slog.New(slog.NewTextHandler(&out, nil))})
	l.logFold(&store.Folded{Ended: 3, Acted: 2})
	require.Contains(t, out.String(), `msg="batches ended" batches=3`)
	require.Contains(t, out.String(), "batches=2")
	l.logStep(&store.Stepped{Verb: "rollback", Task: 4211, Refused: 2})
	require.Contains(t, out.String(), "verb=rollback tasks=0 task=4211 refused=2")
}

func TestSettleDoesAllThatCanBeDone(t *testing.T) {
	ended := []store.Stepped{{Found: true, Rows: 3}, {Found: true, Ended: true}, {Found: true}}
	folded := []store.Folded{{Batches: foldLimit}, {Batches: 1, Acted: 1}, {Batches: 1, Ended: 1}, {}}
	s := &script{
		fold: func(context.Context) (f store.Folded, _ error) {
			f, folded = folded[0], folded[1:]
			return f, nil
		},
		step: func(context.Context, int) (r store.Stepped, _ error) {
			r, ended = ended[0], ended[1:]
			return r, nil
		},
	}
	l := New(Options{Work: s, Poll: time.Second, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics(prometheus.NewRegistry())})
	changed, err := l.Settle(t.Context())
	require.NoError(t, err)
	require.True(t, changed)
	folds, steps := s.counts()
	require.Equal(t, []int{3, 3}, []int{folds, steps}, "until there is nothing but an operation that waits")

	s.step = nil
	changed, err = l.Settle(t.Context())
	require.NoError(t, err)
	require.False(t, changed)
	s.fold = func(context.Context) (store.Folded, error) { return store.Folded{Batches: 1, Missed: 1}, nil }
	changed, err = l.Settle(t.Context())
	require.NoError(t, err)
	require.True(t, changed, "others were at work on a batch")
	s.fold = func(context.Context) (store.Folded, error) { return store.Folded{}, errors.New("out of reach") }
	_, err = l.Settle(t.Context())
	require.Error(t, err)
}

// steps is a bulk change of which nothing is known.
type steps struct{ n atomic.Int64 }

func (s *steps) Step(context.Context, int) (BulkStepped, error) {
	s.n.Add(1)
	return BulkStepped{}, nil
}

// Where it is told of operations and bulk changes it looks for these at once then, and seldom else. It folds as often as ever.
func TestALoopThatIsToldSeldomLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		var bulk steps
		r := startOf(t, Options{Work: &s, Bulk: &bulk, Poll: time.Second, Look: 10 * time.Second})
		after(time.Second)
		s.forget()
		bulk.n.Store(0)
		after(10 * time.Minute)
		folds, looks := s.counts()
		require.InDelta(t, 300, folds, 60)
		require.InDelta(t, 30, looks, 6)
		require.InDelta(t, 30, bulk.n.Load(), 6)
		s.forget()
		bulk.n.Store(0)
		for range 5 {
			r.loop.Changed()
			after(time.Second)
		}
		_, looks = s.counts()
		require.GreaterOrEqual(t, looks, 5)
		require.GreaterOrEqual(t, bulk.n.Load(), int64(5))
		r.end()
	})
}
