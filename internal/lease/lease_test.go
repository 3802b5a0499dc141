package lease_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

var policy = task.Policy{Timeout: 20 * time.Second, Stop: 7 * time.Second}

func claimed(change ...func(*task.Task)) *task.Task {
	now := time.Now()
	t := &task.Task{ID: 1, Type: "a", State: task.StateRunning, Fence: 1, Attempt: 1, ClaimedAt: now}
	t.LeaseEnd = now.Add(policy.Window(task.Run))
	for _, c := range change {
		c(t)
	}
	return t
}

func pass(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func TestTimeoutStopsFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := lease.RunClock()
		l := lease.New(t.Context(), claimed(), &policy, clock, clock.Now(), nil)
		defer l.Close()
		pass(500 * time.Millisecond)
		require.Equal(t, 20*time.Second, l.Remaining())
		_, ok := l.Started()
		require.False(t, ok)
		l.Start()
		pass(9 * time.Second)
		l.Start() // only the first counts
		pass(10 * time.Second)
		require.NoError(t, l.Context().Err())
		require.Equal(t, time.Second, l.Remaining())
		require.Nil(t, l.Cause())
		pass(time.Second)
		require.Equal(t, task.TimedOut, l.Cause().Verdict)
		require.Contains(t, l.Cause().Reason, "20s")
		require.Zero(t, l.Remaining())
		l.Stop(&lease.Cause{Verdict: task.Cancelled})
		require.Equal(t, task.TimedOut, l.Cause().Verdict, "the first cause stands")
		ago, ok := l.Started()
		require.True(t, ok)
		require.Equal(t, 20*time.Second, ago)
	})
}

func TestDeadlineCutsTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := lease.RunClock()
		row := claimed(func(r *task.Task) { r.Deadline = r.ClaimedAt.Add(5 * time.Second) })
		l := lease.New(t.Context(), row, &policy, clock, clock.Now(), nil)
		defer l.Close()
		pass(time.Second)
		require.Equal(t, 4*time.Second, l.Remaining())
		require.Equal(t, row.Deadline, l.Deadline())
		l.Start()
		pass(4 * time.Second)
		require.Equal(t, task.TimedOut, l.Cause().Verdict)
		require.Contains(t, l.Cause().Reason, "deadline")
		left, ok := l.Left()
		require.True(t, ok)
		require.Zero(t, left)
	})
}

func TestRollbackHeedsNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := lease.RunClock()
		row := claimed(func(r *task.Task) { r.State, r.Deadline = task.StateRollbackRunning, r.ClaimedAt.Add(-time.Hour) })
		l := lease.New(t.Context(), row, &policy, clock, clock.Now(), nil)
		defer l.Close()
		require.Equal(t, policy.Timeout, l.Remaining())
		_, ok := l.Left()
		require.False(t, ok)
		l.Start()
		pass(policy.Timeout - time.Millisecond)
		require.Nil(t, l.Cause())
	})
}

func TestLateReportsWhenNoWholeAttemptFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := lease.RunClock()
		whole := lease.New(t.Context(), claimed(), &policy, clock, clock.Now(), nil)
		defer whole.Close()
		cut := lease.New(t.Context(), claimed(func(r *task.Task) { r.Deadline = r.ClaimedAt.Add(5 * time.Second) }),
			&policy, clock, clock.Now(), nil)
		defer cut.Close()
		pass(task.StartWait)
		require.False(t, whole.Late())
		pass(time.Millisecond)
		require.True(t, whole.Late())
		require.False(t, cut.Late(), "its deadline comes first")
	})
}

func TestLateStartDoesNotMoveTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := lease.RunClock()
		sent := clock.Now()
		pass(4 * time.Second) // the claim's reply took that long
		l := lease.New(t.Context(), claimed(), &policy, clock, sent, nil)
		defer l.Close()
		l.Start()
		pass(17*time.Second - time.Millisecond)
		require.Nil(t, l.Cause())
		pass(time.Millisecond)
		require.NotNil(t, l.Cause(), "stopping begins `stop` before the window's end, whatever was late")
	})
}

func TestKillComesBeforeTheLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := lease.RunClock()
		present := clock.Now() + time.Hour
		l := lease.New(t.Context(), claimed(), &policy, clock, clock.Now(), func() time.Duration { return present })
		defer l.Close()
		require.Equal(t, policy.Window(task.Run)-lease.KillMargin, l.KillIn())
		pass(10 * time.Second)
		require.Equal(t, policy.Window(task.Run)-lease.KillMargin-10*time.Second, l.KillIn())
		present = clock.Now() + 3*time.Second
		require.Equal(t, 3*time.Second-lease.KillMargin, l.KillIn(), "presence runs out first")
	})
}

func TestPingReportsWhetherTheRowIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := lease.RunClock()
		l := lease.New(t.Context(), claimed(), &policy, clock, clock.Now(), nil)
		l.Start()
		require.Equal(t, store.Applied, l.Ping(store.Ping{}).Answer)
		l.Stop(&lease.Cause{Verdict: task.Lost})
		require.Equal(t, store.Lost, l.Ping(store.Ping{}).Answer)
		l.Close()
		require.True(t, l.Over())
	})
}

func TestCauseIsAnErrorAndAnOutcome(t *testing.T) {
	c := &lease.Cause{Verdict: task.Drained, Reason: "the agent was stopped"}
	require.EqualError(t, c, "drained: the agent was stopped")
	require.EqualError(t, &lease.Cause{Verdict: task.Lost}, "lost")
	require.Equal(t, task.Outcome{Verdict: task.Drained, Error: "the agent was stopped"}, c.Outcome())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(c)
	require.ErrorIs(t, context.Cause(ctx), c)
}

func TestBootClockGoesOn(t *testing.T) {
	clock := lease.BootClock()
	a := clock.Now()
	require.Positive(t, a)
	require.GreaterOrEqual(t, clock.Now(), a)
}
