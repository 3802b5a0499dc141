package activity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/test/storetest/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig runs a recorder on a store in a bubble of virtual time.
type rig struct {
	t        *testing.T
	model    *model.Store
	counters *Counters
	logs     bytes.Buffer
	end      func() // ends Run and waits for that

	mu      sync.Mutex
	skew    time.Duration // of the store's clock
	fails   func() error  // before a write; nil: none fails
	losing  bool          // replies are lost
	written []time.Time
	largest int
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.skew)
}

// set changes how the store is.
func (r *rig) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *rig) KeepActivity(ctx context.Context, session task.Session, rows []store.ActivityRow) (int, error) {
	r.mu.Lock()
	r.written, r.largest = append(r.written, time.Now()), max(r.largest, len(rows))
	fails, losing := r.fails, r.losing
	r.mu.Unlock()
	if fails != nil {
		if err := fails(); err != nil {
			return 0, err
		}
	}
	dropped, err := r.model.KeepActivity(ctx, session, rows)
	if losing {
		return 0, errors.New("the reply was lost")
	}
	return dropped, err
}

// inBubble runs f with a recorder that has joined at 12:00:20.
func inBubble(t *testing.T, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, counters: NewCounters()}
		r.model = model.New(r.now)
		start := time.Date(2026, 1, 1, 12, 0, 20, 0, time.UTC)
		r.skew = time.Until(start)
		joined := make(chan struct{})
		rec := NewRecorder(Options{
			Counters: r.counters, Store: r, Joined: joined, Session: func() (task.Session, bool) { return 7, true }, Now: r.now,
			Log: slog.New(slog.NewTextHandler(&r.logs, nil)), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- rec.Run(ctx) }()
		close(joined)
		synctest.Wait()
		over := false
		r.end = func() {
			if !over {
				over = true
				cancel()
				require.NoError(t, <-ended)
			}
		}
		defer r.end()
		f(r)
	})
}

// after lets d of virtual time pass and everything come to rest.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

// succeed counts attempts.
func (r *rig) succeed(typ string, n int) {
	for range n {
		r.counters.Of(typ).Started(0)
		r.counters.Of(typ).Ended(task.Succeeded)
	}
}

// ended returns how many attempts ended, by the minute or the hour.
func (r *rig) ended(step store.ActivityStep) map[string]int64 {
	r.t.Helper()
	a, err := r.model.Activity(context.Background(), step, 10_000, "")
	require.NoError(r.t, err)
	all := map[string]int64{}
	for _, s := range a.Rows {
		require.Equal(r.t, s.Started(), s.Ended())
		all[s.At.Format("15:04")] += s.Ended()
	}
	return all
}

func TestMinutesAreRecorded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.succeed("a", 3)
		after(39 * time.Second) // 12:00:59
		require.Equal(t, map[string]int64{"12:00": 3}, r.ended(store.ActivityMinute), "the minute that is not over")
		r.succeed("a", 4)
		r.succeed("b", 1)
		after(2 * time.Second) // 12:01:01
		r.succeed("a", 10)
		after(14 * time.Second)
		require.Equal(t, map[string]int64{"12:00": 8, "12:01": 10}, r.ended(store.ActivityMinute))
		require.Equal(t, map[string]int64{"12:00": 18}, r.ended(store.ActivityHour))
		after(59 * time.Minute)
		r.succeed("b", 5)
		r.end()
		require.Equal(t, map[string]int64{"12:00": 8, "12:01": 10, "13:00": 5}, r.ended(store.ActivityMinute), "also what came last")
		require.Equal(t, map[string]int64{"12:00": 18, "13:00": 5}, r.ended(store.ActivityHour))
		require.Empty(t, r.logs.String())
	})
}

func TestFewWrites(t *testing.T) {
	inBubble(t, func(r *rig) {
		after(time.Hour)
		require.Empty(t, r.written, "nothing was counted")
		for range 3600 {
			r.succeed("a", 1)
			after(time.Second)
		}
		require.InDelta(t, 360, len(r.written), 40, "about every ten seconds")
		require.Contains(t, []int{3, 4}, r.largest, "rows of this minute, the last one, and this hour; and of the last hour, unless all of that was written before it ended")
	})
}

func TestRecordedAfterAnOutage(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.set(func() { r.fails = func() error { return errors.New("out of reach") } })
		want := map[string]int64{}
		for i := range 30 {
			want[r.now().Format("15:04")] += int64(i)
			r.succeed("a", i)
			after(time.Minute)
		}
		require.Empty(t, r.ended(store.ActivityMinute))
		delete(want, "12:00") // 0
		r.set(func() { r.fails = nil })
		after(2 * time.Minute)
		require.Equal(t, want, r.ended(store.ActivityMinute))
		require.NotContains(t, r.logs.String(), "dropped")
	})
}

func TestLostRepliesCountOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.set(func() { r.losing = true })
		r.succeed("a", 3)
		after(20 * time.Second)
		r.succeed("a", 4)
		after(20 * time.Minute)
		require.Greater(t, len(r.written), 10)
		r.set(func() { r.losing = false })
		after(2 * time.Minute)
		require.Equal(t, map[string]int64{"12:00": 7}, r.ended(store.ActivityMinute))
		require.Equal(t, map[string]int64{"12:00": 7}, r.ended(store.ActivityHour))
	})
}

func TestALongOutageIsBounded(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.set(func() { r.fails = func() error { return errors.New("out of reach") } })
		const types, minutes = 200, 100
		for range minutes {
			for i := range types {
				r.succeed(fmt.Sprint(i), 1)
			}
			after(time.Minute)
		}
		r.set(func() { r.fails = nil })
		after(2 * time.Minute)
		total := int64(0)
		for _, n := range r.ended(store.ActivityHour) {
			total += n
		}
		require.Equal(t, int64(types*minutes), total, "hours are dropped last")
		got := r.ended(store.ActivityMinute)
		require.Less(t, len(got), minutes)
		require.Greater(t, len(got), 30)
		require.NotContains(t, got, "12:05", "the oldest were dropped")
		require.Contains(t, r.logs.String(), "counts of attempts were dropped while the store was out of reach")
		require.Equal(t, store.ActivityRows, r.largest)
	})
}

func TestTheClockJumps(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.succeed("a", 3)
		after(20 * time.Second) // 12:00:40, so that the counters are read before the minute ends: that is when they know of the jump
		r.set(func() { r.skew -= time.Hour })
		r.succeed("a", 4)
		after(40 * time.Second) // 11:01:20
		r.succeed("a", 5)
		after(15 * time.Second)
		got := r.ended(store.ActivityMinute)
		require.Equal(t, int64(4), got["11:00"])
		require.Equal(t, int64(5), got["11:01"])
		r.set(func() { r.skew += time.Hour }) // 12:01:35, and what was counted at 12:00 is still there
		after(20 * time.Second)
		require.Equal(t, int64(3), r.ended(store.ActivityMinute)["12:00"])
		r.set(func() { r.skew -= time.Minute }) // back into 12:00
		r.succeed("a", 6)
		after(15 * time.Second)
		sum := int64(0)
		for _, n := range r.ended(store.ActivityMinute) {
			sum += n
		}
		require.Equal(t, int64(3+4+5+6), sum, "a minute that comes again goes on from where it was")
	})
}
