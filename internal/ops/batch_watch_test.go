package ops

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// course is a store whose batch depends on how long ago it began.
type course struct {
	Batches
	began           time.Time
	at              func(since time.Duration) (*store.BatchInfo, error)
	looks, failures int
	unread          error // of BatchFailures
}

func (c *course) GetBatch(context.Context, task.BatchID) (*store.BatchInfo, error) {
	c.looks++
	return c.at(time.Since(c.began))
}

// BatchFailures has more kinds of failures than are ever shown.
func (c *course) BatchFailures(_ context.Context, _ task.BatchID, each func(task.ID, string)) error {
	c.failures++
	for kind := range FailuresShown + 1 {
		each(task.ID(kind), "no room in "+strings.Repeat("x", kind+1))
	}
	return c.unread
}

// ends is a batch that runs, and has failed from half of its time on, with one more task failed each 100 ms.
func ends(since, after time.Duration) *store.BatchInfo {
	b := half()
	b.Failed = 0
	if since > after/2 {
		b.Failed = int64((since - after/2) / (100 * time.Millisecond))
	}
	if since >= after {
		end := time.Now()
		b.State, b.Live, b.EndedAt = store.BatchPartiallyFailed, 0, &end
	}
	return b
}

func TestWatchBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &course{began: time.Now(), at: func(since time.Duration) (*store.BatchInfo, error) { return ends(since, time.Minute), nil }}
		seen, changes := 0, 0
		var kinds []int
		v, err := WatchBatch(t.Context(), s, 17, BatchWatch{Kinds: 3, Seen: func(v *BatchView) error {
			seen++
			if v.Changed {
				changes++
			}
			require.Nil(t, v.EndedAt, "the end is returned")
			require.NotNil(t, v.Failures)
			if len(v.Failures) > 0 {
				kinds = append(kinds, len(v.Failures))
			}
			return nil
		}})
		require.NoError(t, err)
		require.Equal(t, store.BatchPartiallyFailed, v.State)
		require.True(t, v.Changed)
		require.NotEmpty(t, v.Failures)
		require.Equal(t, 1, changes)
		require.Equal(t, s.looks-1, seen)
		require.Less(t, s.looks, 75, "the store is spared")
		require.Less(t, s.failures, 20, "and asked for failures every two seconds at most")
		require.Greater(t, s.failures, 10)
		require.Len(t, v.Failures, FailuresShown, "more kinds at the end")
		require.Equal(t, []int{3}, slices.Compact(kinds))
		require.Less(t, time.Since(s.began), time.Minute+batchLongest+time.Millisecond)
		_, ok := v.Pace.Rate()
		require.True(t, ok)
	})
}

func TestWatchBatchAsksForNoFailuresUnasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &course{began: time.Now(), at: func(since time.Duration) (*store.BatchInfo, error) { return ends(since, time.Minute), nil }}
		v, err := WatchBatch(t.Context(), s, 17, BatchWatch{})
		require.NoError(t, err)
		require.Equal(t, 1, s.failures, "once it has ended")
		require.Len(t, v.Failures, FailuresShown)
		s = &course{began: time.Now(), at: func(time.Duration) (*store.BatchInfo, error) {
			b := ends(0, 0)
			b.Failed, b.State = 0, store.BatchSucceeded
			return b, nil
		}}
		v, err = WatchBatch(t.Context(), s, 17, BatchWatch{Kinds: 3})
		require.NoError(t, err)
		require.Zero(t, s.failures, "nor where nothing failed")
		require.NotNil(t, v.Failures)
	})
}

func TestWatchBatchOutlastsAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("connection refused")
		trouble := 0
		outage := func(length time.Duration) (*BatchView, error) {
			s := &course{began: time.Now(), at: func(since time.Duration) (*store.BatchInfo, error) {
				if since > time.Second && since < time.Second+length {
					return nil, away
				}
				return ends(since, 40*time.Second), nil
			}}
			return WatchBatch(t.Context(), s, 17, BatchWatch{Trouble: func(error) { trouble++ }})
		}
		_, err := outage(25 * time.Second)
		require.NoError(t, err)
		require.Equal(t, 1, trouble, "reported once")
		_, err = outage(time.Hour)
		require.ErrorIs(t, err, away)
	})
}

func TestWatchBatchGoesOnWithoutFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &course{began: time.Now(), unread: errors.New("no such function"), at: func(since time.Duration) (*store.BatchInfo, error) {
			return ends(since, 10*time.Second), nil
		}}
		unread := 0
		v, err := WatchBatch(t.Context(), s, 17, BatchWatch{Unread: func(error) { unread++ }})
		require.NoError(t, err)
		require.Equal(t, 1, unread)
		require.NotNil(t, v.Failures)
		require.Empty(t, v.Failures)
	})
}

func TestWatchBatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := &course{at: func(time.Duration) (*store.BatchInfo, error) { return nil, store.ErrNoBatch }}
		_, err := WatchBatch(t.Context(), gone, 17, BatchWatch{})
		require.ErrorIs(t, err, store.ErrNoBatch)
		require.ErrorContains(t, err, "batch 17: ")
		require.Equal(t, 1, gone.looks)

		long := &course{began: time.Now(), at: func(since time.Duration) (*store.BatchInfo, error) { return ends(since, time.Hour), nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = WatchBatch(ctx, long, 17, BatchWatch{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Minute, time.Since(long.began))

		broken := errors.New("broken pipe")
		_, err = WatchBatch(t.Context(), long, 17, BatchWatch{Seen: func(*BatchView) error { return broken }})
		require.ErrorIs(t, err, broken)
	})
}
