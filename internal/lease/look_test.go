package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// claim claims a row whose lease is not open yet.
func (p *post) claim(t *testing.T, number int64) task.Task {
	t.Helper()
	_, err := p.store.Insert(t.Context(), store.EnqueueRequest{Type: "a"})
	require.NoError(t, err)
	got, err := p.store.Claim(t.Context(), store.Claim{Session: p.Session(), Number: number, Wants: []store.Want{
		{Type: "a", Phase: task.Run, N: 1, Window: policy.Window(task.Run), Policy: policy.Hash("a")},
	}})
	require.NoError(t, err)
	require.Len(t, got, 1)
	return got[0]
}

func (p *post) open(t *testing.T, number int64, row *task.Task) *lease.Lease {
	t.Helper()
	l := p.Open(number, []lease.Row{{Task: row, Policy: &policy}}, p.clock.Now())[0]
	t.Cleanup(l.Close)
	return l
}

// says has the store name rows that are to stop.
func (p *post) says(list ...store.Cancel) { p.cancels.Store(&list) }

func named(row task.Task, claim int64, requested bool) store.Cancel {
	return store.Cancel{ID: row.ID, Fence: row.Fence, Claim: claim, Requested: requested, Reason: "alice"}
}

func TestALookStopsWhatIsMarked(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		row := p.claim(t, 1)
		l := p.open(t, 1, &row)
		l.Start()
		p.says(named(row, 1, true))
		p.Look()
		pass(time.Millisecond)
		require.Equal(t, task.Cancelled, verdict(l))
		require.Equal(t, ", by alice", l.CancelledBy())
	})
}

func TestALookStopsOfABatchOnlyWhatHasNotBegun(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		runs, waits := p.claim(t, 1), p.claim(t, 2)
		running, waiting := p.open(t, 1, &runs), p.open(t, 2, &waits)
		running.Start()
		p.says(named(runs, 1, false), named(waits, 2, false))
		p.Look()
		pass(time.Millisecond)
		require.NoError(t, running.Context().Err(), "it is stopped once its row is marked")
		require.Equal(t, task.Drained, verdict(waiting))
		require.False(t, waiting.CancelRequested(), "the row goes back, and is cancelled where it waits")
	})
}

// A claim may have committed before the cancellation although the agent reads its reply after it knows of that.
func TestALookKnowsWhatIsOpenedLater(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		row, other := p.claim(t, 1), p.claim(t, 2)
		p.says(named(row, 1, false))
		p.Look()
		pass(time.Millisecond)
		require.Equal(t, task.Drained, verdict(p.open(t, 1, &row)))
		require.NoError(t, p.open(t, 2, &other).Context().Err())

		again := p.claim(t, 3)
		stale := named(again, 3, true)
		stale.Fence--
		p.says(stale)
		p.Look()
		pass(100 * time.Millisecond)
		require.NoError(t, p.open(t, 3, &again).Context().Err(), "that was an earlier hold")
	})
}

func TestLooksAreNotMoreOftenThanTheyShould(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		shown := p.shown.Load()
		for range 10_000 {
			p.Look()
			pass(time.Millisecond)
		}
		require.InDelta(t, 10*50, p.looks.Load(), 20)
		require.LessOrEqual(t, p.shown.Load()-shown, int64(10), "none of them writes")
	})
}

func TestALookThatFailsIsRepeated(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		row := p.claim(t, 1)
		l := p.open(t, 1, &row)
		p.says(named(row, 1, true))
		p.cut.Store(true)
		p.Look()
		pass(time.Second)
		require.InDelta(t, 4, p.looks.Load(), 1, "and not too often")
		require.NoError(t, l.Context().Err())
		p.cut.Store(false)
		pass(300 * time.Millisecond)
		require.Equal(t, task.Cancelled, verdict(l))
	})
}
