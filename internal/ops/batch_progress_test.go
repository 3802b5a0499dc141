package ops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// half is a batch of 1,000 that is half done.
func half() *store.BatchInfo {
	return &store.BatchInfo{
		ID: 17, Name: "move to az2", State: store.BatchRunning, Sealed: true, Total: 1000, Live: 500, Waiting: 492, Running: 8,
		Succeeded: 499, Failed: 1,
	}
}

func TestPace(t *testing.T) {
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	var p Pace
	b := half()
	unknown := func(reason string) {
		t.Helper()
		_, ok := p.Rate()
		require.False(t, ok, reason)
		_, ok = p.Left(b)
		require.False(t, ok, reason)
	}
	rate := func() float64 {
		t.Helper()
		rate, ok := p.Rate()
		require.True(t, ok)
		return rate
	}
	unknown("nothing was seen")
	p.Add(b, start)
	unknown("one look says nothing")
	b.Live = 400
	p.Add(b, start.Add(500*time.Millisecond))
	unknown("nor does half a second")
	b.Live = 300
	p.Add(b, start.Add(2*time.Second))
	require.InDelta(t, 100, rate(), 1e-9)
	left, ok := p.Left(b)
	require.True(t, ok)
	require.Equal(t, 3*time.Second, left)
	for range 100 {
		start = start.Add(time.Second)
		p.Add(b, start)
	}
	require.Zero(t, rate(), "it stands still")
	_, ok = p.Left(b)
	require.False(t, ok, "and has no end in sight")
	require.Less(t, len(p.seen), 40, "only half a minute is kept")
	b.Live = 299
	p.Add(b, start.Add(time.Second))
	require.InDelta(t, 1.0/30, rate(), 0.01)
	_, ok = p.Left(b)
	require.True(t, ok)
	b.Sealed = false
	_, ok = p.Left(b)
	require.False(t, ok, "how many tasks will be added is not known")
	b.State, b.Live, b.RolledBack = store.BatchRollingBack, 990, 10
	p.Add(b, start.Add(2*time.Second))
	require.Len(t, p.seen, 1, "backward is another count")
	b.RolledBack, b.Live = 9, 991
	p.Add(b, start.Add(3*time.Second))
	require.Len(t, p.seen, 1, "and so is a count that falls, as after a retry")
}

func TestPaceHasNoEstimateBeyondACentury(t *testing.T) {
	var p Pace
	b := &store.BatchInfo{State: store.BatchRunning, Sealed: true, Total: 1 << 40, Live: 1 << 40}
	start := time.Now()
	p.Add(b, start)
	b.Live--
	p.Add(b, start.Add(20*time.Second))
	_, ok := p.Rate()
	require.True(t, ok)
	_, ok = p.Left(b)
	require.False(t, ok)
	end := start.Add(time.Minute)
	b.Live, b.Total, b.EndedAt = 10, 20, &end
	_, ok = p.Left(b)
	require.False(t, ok, "it has ended")
}

func TestBatchDone(t *testing.T) {
	ended := time.Now()
	for _, c := range []struct {
		name     string
		b        store.BatchInfo
		done, of int64
		share    float64
	}{
		{"empty", store.BatchInfo{State: store.BatchPending}, 0, 0, 0},
		{"empty, and ended", store.BatchInfo{State: store.BatchSucceeded, EndedAt: &ended}, 0, 0, 1},
		{"forward", store.BatchInfo{State: store.BatchRunning, Total: 10, Live: 4}, 6, 10, 0.6},
		{"just turned", store.BatchInfo{State: store.BatchRollingBack, Total: 10, Live: 4, Succeeded: 6, Operation: "rollback"}, 0, 10, 0},
		{"backward", store.BatchInfo{
			State: store.BatchRollingBack, Total: 10, Live: 3, Succeeded: 1, Cancelled: 4, RolledBack: 2, Operation: "rollback",
		}, 6, 10, 0.6},
		{"backward, all of it under way", store.BatchInfo{
			State: store.BatchRollingBack, Total: 10, Live: 3, Succeeded: 1, Cancelled: 4, RolledBack: 1, RollbackFailed: 1,
		}, 6, 9, 2.0 / 3},
	} {
		done, of, back := BatchDone(&c.b)
		require.Equal(t, c.done, done, c.name)
		require.Equal(t, c.of, of, c.name)
		require.Equal(t, c.b.State == store.BatchRollingBack, back, c.name)
		require.InDelta(t, c.share, BatchShare(&c.b), 1e-9, c.name)
	}
}

// Each column of counts is in BatchCounts once: together they are all tasks.
func TestBatchCountsAreAllTasks(t *testing.T) {
	b := &store.BatchInfo{Waiting: 1, Running: 2, RollingBack: 4, Succeeded: 8, Failed: 16, Cancelled: 32, RolledBack: 64, RollbackFailed: 128}
	sum := int64(0)
	for _, c := range BatchCounts(b) {
		require.NotEmpty(t, c.Name)
		sum += c.N
	}
	require.EqualValues(t, 255, sum)
}

func TestBatchFaults(t *testing.T) {
	require.Zero(t, BatchFaults(&store.BatchInfo{Succeeded: 3}))
	require.EqualValues(t, 3, BatchFaults(&store.BatchInfo{Failed: 2, Failures: 1, RollbackFailed: 1}))
	require.EqualValues(t, 5, BatchFaults(&store.BatchInfo{Failures: 5, RolledBack: 5}), "also where they were rolled back since")
}
