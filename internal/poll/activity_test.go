package poll_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// TestAttemptsAreCounted: the store has, by outcome, what two agents have done, and what one of them reaped of a third one that was cut off; as
// the metrics have it. What the third one says of the same attempts, once it is back, is refused and not counted.
func TestAttemptsAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		recording := func(do func(*lease.Lease, *task.Type) task.Outcome) (*rig, func()) {
			counters := activity.NewCounters()
			r := newRig(t, db, doing(do), func(r *rig) { r.opts.Activity = counters })
			after(time.Second)
			joined := make(chan struct{})
			close(joined)
			recorder := activity.NewRecorder(activity.Options{
				Counters: counters, Store: db, Joined: joined, Session: r.engine.Session, Now: r.engine.StoreNow,
				Log: r.opts.Log, Metrics: r.opts.Metrics,
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- recorder.Run(ctx) }()
			return r, func() {
				r.drain()
				cancel()
				require.NoError(t, <-ended)
			}
		}
		reject := func(l *lease.Lease, typ *task.Type) task.Outcome {
			if typ.Name == "b" {
				return task.Outcome{Verdict: task.Rejected}
			}
			return takes(time.Second)(l, typ)
		}
		away, endAway := recording(takes(time.Hour))
		away.insert(3)
		after(time.Second)
		away.wire.setHook(func(string) fault { return lostCall })
		first, endFirst := recording(reject)
		second, endSecond := recording(reject)
		first.insert(40)
		first.insert(10, func(r *store.EnqueueRequest) { r.Type = "b" })
		after(2 * time.Minute)
		away.wire.setHook(nil)
		after(time.Minute)
		require.InDelta(t, 3, testutil.ToFloat64(away.opts.Metrics.StaleSettlements), 0)
		require.InDelta(t, 3, testutil.ToFloat64(away.opts.Metrics.LeasesLost), 0)
		endFirst()
		endSecond()
		endAway()
		a, err := db.Activity(t.Context(), store.ActivityHour, 10, "")
		require.NoError(t, err)
		var all store.ActivityCounts
		for i := range a.Rows {
			all.Add(&a.Rows[i].ActivityCounts)
		}
		for _, v := range task.Verdicts() {
			want := 0.0
			for _, r := range []*rig{first, second, away} {
				for _, typ := range []string{"a", "b"} {
					want += testutil.ToFloat64(r.opts.Metrics.Attempts.WithLabelValues(typ, "run", string(v)))
				}
			}
			require.InDelta(t, want, all.Of(v), 0, v)
		}
		require.Equal(t, int64(43), all.Of(task.Succeeded))
		require.Equal(t, int64(10), all.Of(task.Rejected))
		require.Equal(t, int64(3), all.Of(task.Lost))
		require.Zero(t, all.Of(task.Drained))
		require.Equal(t, int64(56), all.Started())
	})
}
