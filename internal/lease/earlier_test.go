package lease_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// again opens a lease on a row that the agent has claimed with that fence.
func (p *post) again(fence task.Fence) *lease.Lease {
	row := &task.Task{ID: 1, Type: "a", State: task.StateRunning, Fence: fence, Policy: policy.Hash("a")}
	return p.Open(int64(fence), []lease.Row{{Task: row, Policy: &policy}}, p.clock.Now())[0]
}

// waits runs AwaitEarlier and reports whether it has returned.
func waits(l *lease.Lease) func() bool {
	var returned atomic.Bool
	go func() {
		l.AwaitEarlier()
		returned.Store(true)
	}()
	return func() bool {
		synctest.Wait()
		return !returned.Load()
	}
}

func TestALaterLeaseWaitsForEveryEarlierOne(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		first := p.again(1)
		require.False(t, waits(first)())
		first.Start()
		second := p.again(3)
		require.Equal(t, task.Lost, first.Cause().Verdict)
		require.Nil(t, second.Cause())
		waiting := waits(second)
		require.True(t, waiting())

		third := p.again(5)
		require.Equal(t, task.Lost, second.Cause().Verdict)
		second.Close() // it is released from the queue, and has waited for nothing
		p.Release(second)
		last := waits(third)
		require.True(t, last(), "of the first one something is left")
		third.Close()
		p.Release(third)
		require.Equal(t, 1, p.Held(), "the first one is still to be waited for")
		fourth := p.again(7)
		final := waits(fourth)
		require.True(t, final())

		first.Close()
		p.Release(first)
		for _, left := range []func() bool{waiting, last, final} {
			require.False(t, left())
		}
		require.Nil(t, fourth.Cause())
		require.Equal(t, 1, p.Held())
		fourth.Close()
		p.Release(fourth)
		require.Zero(t, p.Held())
	})
}

func TestALaterLeaseDoesNotWaitForWhatGoesOnElsewhere(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		detached := p.again(1)
		detached.Start()
		second := p.again(3)
		waiting := waits(second)
		require.True(t, waiting())
		detached.Detach()
		require.False(t, waiting(), "it was accepted, and goes on without the agent")
		third := p.again(5)
		second.Close()
		require.False(t, waits(third)())
		fourth := p.again(7)
		require.Equal(t, task.Lost, third.Cause().Verdict)
		third.Close()
		require.False(t, waits(fourth)())
	})
}
