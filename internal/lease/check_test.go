package lease_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// checked declares a check of 5 s before attempts of 20 s that ping every 10.
var checked = task.Policy{Timeout: 20 * time.Second, Heartbeat: 10 * time.Second, Stop: 7 * time.Second, Check: 5 * time.Second}

func checkedLease(t *testing.T, change ...func(*task.Task)) *lease.Lease {
	t.Helper()
	clock := lease.RunClock()
	l := lease.New(t.Context(), claimed(change...), &checked, clock, clock.Now(), nil)
	t.Cleanup(l.Close)
	return l
}

func TestCheckHasATimeoutOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := checkedLease(t)
		c := l.Check()
		defer c.Close()
		require.Equal(t, task.Check, c.Phase())
		require.Equal(t, 5*time.Second, c.Remaining())
		require.Zero(t, c.Heartbeat())
		c.Start()
		pass(5*time.Second - time.Millisecond)
		require.NoError(t, c.Context().Err())
		pass(time.Millisecond)
		require.Equal(t, task.TimedOut, c.Cause().Verdict)
		require.Contains(t, c.Cause().Reason, "5s")
		require.Equal(t, 23*time.Second-5*time.Second-lease.KillMargin, c.KillIn(), "the whole window is there to stop it in")
		require.NoError(t, l.Context().Err(), "the attempt is another agent's to reap")
	})
}

func TestAttemptHasItsWholeTimeBehindACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := checkedLease(t)
		pass(time.Second)
		require.False(t, l.Late())
		c := l.Check()
		c.Start()
		pass(5 * time.Second)
		c.Close()
		require.False(t, l.Late(), "the check has had its time")
		l.Start()
		pass(10*time.Second - time.Millisecond)
		require.NoError(t, l.Context().Err())
		pass(time.Millisecond)
		require.Equal(t, task.Stalled, l.Cause().Verdict, "the first window began with the run")
		require.GreaterOrEqual(t, l.KillIn(), 7*time.Second-lease.KillMargin)
	})
}

func TestLateReportsWhenNoWholeCheckFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := checkedLease(t)
		pass(time.Second + time.Millisecond)
		require.True(t, l.Late(), "a check that takes its whole time would leave too little for the attempt")
		c := l.Check()
		c.Start()
		pass(4 * time.Second)
		c.Close()
		require.False(t, l.Late(), "it took less")
		pass(time.Second)
		require.True(t, l.Late())

		rollBack := checkedLease(t, func(r *task.Task) { r.State = task.StateRollbackRunning })
		require.False(t, rollBack.Late(), "no check comes before a rollback")
	})
}

func TestCheckEndsWithItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, stop := range map[string]struct {
			verdict task.Verdict
			row     func(*task.Task)
			stop    func(*lease.Lease)
		}{
			"cancelled": {task.Cancelled, func(*task.Task) {}, func(l *lease.Lease) { l.Stop(&lease.Cause{Verdict: task.Cancelled}) }},
			"drained":   {task.Drained, func(*task.Task) {}, func(l *lease.Lease) { l.Stop(&lease.Cause{Verdict: task.Drained}) }},
			"the task's deadline": {
				task.TimedOut, func(r *task.Task) { r.Deadline = r.ClaimedAt.Add(2 * time.Second) }, func(*lease.Lease) { pass(2 * time.Second) },
			},
		} {
			l := checkedLease(t, stop.row)
			c := l.Check()
			c.Start()
			stop.stop(l)
			require.Equal(t, stop.verdict, c.Cause().Verdict, name)
			c.Close()
		}
	})
}

func TestCheckReportsWhenItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := checkedLease(t)
		_, ok := l.Started()
		require.False(t, ok)
		c := l.Check()
		defer c.Close()
		pass(2 * time.Second)
		ago, ok := l.Started()
		require.True(t, ok)
		require.Equal(t, 2*time.Second, ago)
		l.Start()
		pass(time.Second)
		ago, _ = l.Started()
		require.Equal(t, time.Second, ago, "its own start goes first")
	})
}

func TestNothingThatACheckSaysMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := checkedLease(t)
		c := l.Check()
		defer c.Close()
		c.Start()
		end := l.EndsIn()
		c.Ping(store.Ping{Progress: []byte("0.4"), Checkpoint: []byte("1"), NextWithin: time.Hour})
		c.SetMessage("page 40")
		require.Equal(t, end, l.EndsIn())
		require.True(t, l.Report().Empty())
		pass(5 * time.Second)
		require.Equal(t, task.TimedOut, c.Cause().Verdict)
	})
}
