package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What a cancellation is to those who hold the row.

func cancelReaped(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	r.insert(2)
	rows := r.claim(under(beating(), 2))
	require.Equal(t, store.Cancelling, r.cancel(rows[0].ID, "alice"))
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := o.sweep(10)
	require.Len(t, reaped, 2)
	ends := make([]store.Settlement, 2)
	for i, s := range reaped {
		require.Equal(t, s.ID == rows[0].ID, s.CancelRequested, "the reaper is notified")
		ends[i] = retry(s.Task, 0)
		ends[i].RanFence = s.RanFence
	}
	require.Equal(t, same(store.CancelPending, 1), o.settle(ends[0]))
	require.Equal(t, store.Cancelling, r.cancel(rows[1].ID, "bob"), "while it is reaped")
	require.Equal(t, same(store.CancelPending, 2), o.settle(ends...))
	for i := range ends {
		ends[i].CancelKnown = true
		ends[i].Next.State = task.StateCancelled
	}
	o.settled(ends...)
	require.Equal(t, task.StateCancelled, r.state(rows[0].ID))
	require.Equal(t, task.StateCancelled, r.state(rows[1].ID))
}

func cancelNotSeen(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	r.insert(2)
	rows := r.claim(under(beating(), 2))
	require.Equal(t, store.Cancelling, r.cancel(rows[0].ID, "alice"))
	pending := retry(rows[0], 0)
	pending.Next.State = task.StatePending
	r.unchanged(rows[0].ID, func() {
		for _, end := range []store.Settlement{retry(rows[0], 0), pending, release(rows[0])} {
			require.Equal(t, same(store.CancelPending, 1), r.settle(end))
		}
		foreign := retry(rows[0], 0)
		require.Equal(t, same(store.Lost, 1), r.second().settle(foreign))
		foreign.Fence++
		require.Equal(t, same(store.Lost, 1), r.settle(foreign))
	})
	require.Equal(t, []store.Answer{store.Applied, store.CancelPending}, r.settle(retry(rows[1], 0), retry(rows[0], 0)))
	next := r.claim(under(beating(), 1))[0]
	require.Equal(t, []store.Answer{store.Applied, store.Applied}, r.settle(finish(next), finish(rows[0])))
	require.Equal(t, task.StateSucceeded, r.state(rows[0].ID))
	require.Equal(t, same(store.Ended, 1), r.settle(retry(rows[0], 0)), "it has ended otherwise")
}

func cancelKnown(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for _, state := range []task.State{task.StateCancelled, task.StateFailed, task.StateRollbackPending} {
		for _, known := range []bool{false, true} {
			row := r.heldUnder(beating())
			require.Equal(t, store.Cancelling, r.cancel(row.ID, "alice"))
			end := retry(row, time.Hour)
			end.Next.State, end.CancelKnown = state, known
			r.settled(end)
			require.Equal(t, state, r.state(row.ID))
			require.Equal(t, same(store.Ended, 1), r.settle(end))
		}
	}
	row := r.heldUnder(beating())
	end := retry(row, 0)
	end.CancelKnown = true
	r.settled(end) // no cancellation was requested
	require.Equal(t, task.StateRetryPending, r.state(row.ID))
}

func cancelForgotten(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	require.Equal(t, store.Cancelling, r.cancel(row.ID, "alice"))
	end := retry(row, 0)
	end.Next = task.Transition{State: task.StateRollbackPending, EverStarted: true}
	r.settled(end)
	require.Nil(t, r.get(row.ID).CancelRequested)
	require.Empty(t, r.get(row.ID).CancelRequestedBy)
	w := under(beating(), 1)
	w.Phase = task.Rollback
	back := r.claim(w)[0]
	require.False(t, back.CancelRequested)
	require.False(t, r.held0().CancelRequested)
	r.settled(finish(back))
	require.Nil(t, r.get(row.ID).CancelRequested)
}

// listen receives the store's news until stop is called.
func (r *liveRig) listen() (news <-chan store.News, stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	received := make(chan store.News, 1000)
	ended := make(chan error, 1)
	go func() { ended <- r.Listen(ctx, func(n store.News) { received <- n }) }()
	return received, func() {
		r.t.Helper()
		cancel()
		require.NoError(r.t, <-ended)
	}
}

func cancelWakes(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	await := func(news <-chan store.News) {
		t.Helper()
		for {
			select {
			case n := <-news:
				if n&store.CancelNews != 0 {
					return
				}
			case <-time.After(10 * time.Second):
				require.Fail(t, "no agent was notified")
			}
		}
	}
	news, stop := r.listen()
	defer stop()
	await(news) // when listening begins: what may have been missed
	for _, cancel := range o.cancellations() {
		row := r.heldUnder(beating())
		for len(news) > 0 {
			<-news
		}
		require.Equal(t, store.Cancelling, cancel(row.ID, "alice"))
		await(news)
		require.True(t, r.held0().CancelRequested)
		r.settled(finish(row))
	}
}
