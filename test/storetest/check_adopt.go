package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func adoptChecks() []Check {
	return []Check{
		{"what it returns and writes", adoptWrites},
		{"from any holder", adoptHolders},
		{"not from another that runs it", adoptAttached},
		{"a rollback", adoptRollback},
		{"whatever its window says", adoptLate},
		{"a stale fence adopts nothing", adoptStale},
		{"a repeat by its reaper", adoptAgain},
		{"a repeat by another", adoptByAnother},
		{"a repeat when it is reaped", adoptReaped},
		{"a repeat when its reaper has died", adoptOrphan},
		{"one of many", adoptRace},
	}
}

func adoptWrites(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	r.insert(1)
	w := under(beating(), 1)
	w.Deadline = time.Hour
	row := r.claim(w)[0]
	require.Equal(t, store.Cancelling, r.cancel(row.ID, "alice"))
	r.counted(row, store.Ping{Progress: raw(`0.4`), Checkpoint: raw(`{"page":40}`)})
	r.detach(row)
	r.Advance(t, time.Minute)
	r.present()
	before := r.get(row.ID)
	reaped, answer := o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Applied, answer)
	require.Equal(t, row.Fence, reaped.RanFence)
	require.Equal(t, row.Fence+1, reaped.Fence)
	require.Equal(t, row.ID, reaped.ID)
	require.Equal(t, task.StateRunning, reaped.State)
	require.Equal(t, row.Attempt, reaped.Attempt)
	require.Equal(t, row.Policy, reaped.Policy)
	require.True(t, reaped.Present)
	require.True(t, reaped.Detached)
	require.True(t, reaped.CancelRequested)
	require.Nil(t, reaped.Checkpoint, "reaping needs no documents")
	require.InDelta(t, 59*time.Minute, reaped.Left, float64(slack))
	near(t, o.now().Add(reapFor), reaped.LeaseEnd)

	after := r.get(row.ID)
	require.Equal(t, o.session, after.Session)
	require.WithinDuration(t, reaped.LeaseEnd, *after.LeaseEnd, time.Millisecond)
	before.Session, before.Agent, before.Fence, before.LeaseEnd = after.Session, "second", row.Fence+1, after.LeaseEnd
	before.Detached = false
	require.Equal(t, before, after, "and nothing else")
	require.Empty(t, r.present().Held)
	got := o.held0()
	require.Zero(t, got.Claim)
	require.False(t, got.Pinged)
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Lost, 2), r.settle(finish(row), retry(row, 0)), "the attempt itself holds it no longer")
		require.Equal(t, store.PingReply{}, r.ping(row, everything()))
	})
	end := retry(reaped.Task, 0)
	end.RanFence, end.CancelKnown, end.Next.State = reaped.RanFence, true, task.StateCancelled
	o.settled(end)
	require.Equal(t, task.StateCancelled, r.state(row.ID))
}

// accepted is a held row whose task goes on without its agent.
func (r *liveRig) accepted(p *task.Policy) task.Task {
	r.t.Helper()
	row := r.heldUnder(p)
	r.detach(row)
	return row
}

func adoptHolders(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	for _, gone := range []bool{false, true} {
		row := r.accepted(beating())
		if gone {
			require.NoError(t, r.Leave(r.ctx, r.session))
		}
		reaped, answer := o.adopt(row.ID, row.Fence)
		require.Equal(t, store.Applied, answer)
		require.Equal(t, !gone, reaped.Present)
		require.True(t, reaped.Detached)
		o.settled(finish(reaped.Task))
	}
	r.present()
	row := r.heldUnder(beating())
	reaped, answer := r.adopt(row.ID, row.Fence)
	require.Equal(t, store.Applied, answer, "from itself, before it is detached, too")
	require.False(t, reaped.Detached)
	r.settled(retry(reaped.Task, 0))
	require.Equal(t, row.ID, r.claim(under(beating(), 1))[0].ID)
}

func adoptAttached(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	busy := func() {
		t.Helper()
		r.unchanged(row.ID, func() {
			_, answer := o.adopt(row.ID, row.Fence)
			require.Equal(t, store.Busy, answer, "its own session is to say how it ended")
		})
	}
	busy()
	require.NoError(t, r.Leave(r.ctx, r.session))
	busy()
	require.Len(t, o.sweep(10), 1)
}

func adoptRollback(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.rollingBack(beating())
	r.detach(row)
	reaped, answer := r.second().adopt(row.ID, row.Fence)
	require.Equal(t, store.Applied, answer)
	require.Equal(t, task.StateRollbackRunning, reaped.State)
	require.False(t, reaped.CancelRequested)
}

func adoptLate(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.accepted(beating())
	r.Advance(t, time.Hour)
	o := r.second()
	_, answer := o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Applied, answer, "its window is over, and it has not been reaped")
	require.Empty(t, r.second().sweep(10), "it has a new reaper's")
}

func adoptStale(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	refused := func(fences ...task.Fence) {
		t.Helper()
		r.unchanged(row.ID, func() {
			for _, f := range fences {
				_, answer := o.adopt(row.ID, f)
				require.Equal(t, store.Lost, answer, "fence %d", f)
			}
		})
	}
	refused(0, -1, row.Fence-1, row.Fence+1, row.Fence+2)
	_, answer := o.adopt(999_999_999, row.Fence)
	require.Equal(t, store.Lost, answer)
	end := retry(row, 0)
	end.Outcome.Verdict = task.Stalled
	r.settled(end)
	refused(row.Fence, row.Fence+1, row.Fence+2)
	next := r.claim(under(beating(), 1))[0]
	refused(row.Fence, row.Fence+1)
	r.settled(finish(next))
	refused(row.Fence, next.Fence, next.Fence+1)
}

func adoptAgain(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.accepted(beating())
	first, answer := o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Applied, answer)
	o.Advance(t, reapFor/2)
	again, answer := o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Applied, answer, "the reply may have been lost")
	require.Equal(t, first.Fence, again.Fence)
	require.Equal(t, first.RanFence, again.RanFence)
	near(t, o.now().Add(reapFor), again.LeaseEnd)
	end := retry(again.Task, time.Hour)
	end.RanFence = again.RanFence
	o.settled(end)
	require.Equal(t, same(store.Ended, 1), o.settle(retry(first.Task, time.Hour)))
	_, answer = o.adopt(row.ID, row.Fence+1)
	require.Equal(t, store.Lost, answer, "no task was given the reaper's fence")
}

func adoptByAnother(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.accepted(beating())
	_, answer := o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Applied, answer)
	r.unchanged(row.ID, func() {
		_, answer = r.adopt(row.ID, row.Fence)
		require.Equal(t, store.Busy, answer, "it is not known yet what its reaper decides")
		_, answer = r.adopt(row.ID, row.Fence+1)
		require.Equal(t, store.Lost, answer)
	})
	got, err := o.Renew(o.ctx, o.session, []store.Renewal{{ID: row.ID, Fence: row.Fence + 1, Detach: true}})
	require.NoError(t, err)
	require.Equal(t, same(store.Applied, 1), got)
	_, answer = r.adopt(row.ID, row.Fence)
	require.Equal(t, store.Busy, answer, "whatever its reaper says of it")
}

func adoptReaped(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	for _, c := range []struct {
		verdict task.Verdict
		next    task.State
		answer  store.Answer
	}{
		{task.Failed, task.StateRetryPending, store.Ended}, {task.Failed, task.StateFailed, store.Ended},
		{task.Rejected, task.StateFailed, store.Ended}, {task.Rejected, task.StateRollbackPending, store.Ended},
		{task.Stalled, task.StateRetryPending, store.Lost}, {task.Lost, task.StateFailed, store.Lost},
		{task.Succeeded, task.StateSucceeded, store.Lost}, {task.Cancelled, task.StateCancelled, store.Lost},
	} {
		for _, adopted := range []bool{true, false} {
			row := r.accepted(beating())
			end, by := retry(row, time.Hour), r
			if adopted {
				reaped, answer := o.adopt(row.ID, row.Fence)
				require.Equal(t, store.Applied, answer)
				end, by = retry(reaped.Task, time.Hour), o
				end.RanFence = reaped.RanFence
			}
			end.Outcome.Verdict, end.Next.State = c.verdict, c.next
			by.settled(end)
			r.unchanged(row.ID, func() {
				for _, again := range []*liveRig{r, o} {
					_, answer := again.adopt(row.ID, row.Fence)
					require.Equal(t, c.answer, answer, "reaped as %s, then %s", c.verdict, c.next)
				}
			})
		}
	}
	row := r.heldUnder(beating())
	r.settled(retry(row, 0))
	next := r.claim(under(beating(), 1))[0]
	_, answer := o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Ended, answer, "also when the next attempt runs")
	require.Equal(t, same(store.Applied, 1), r.settle(finish(next)))
	_, answer = o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Ended, answer)
	_, answer = o.adopt(row.ID, next.Fence)
	require.Equal(t, store.Lost, answer)
}

func adoptOrphan(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.accepted(beating())
	_, answer := o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Applied, answer)
	require.NoError(t, o.Leave(o.ctx, o.session))
	reaped := r.sweep(10)
	require.Len(t, reaped, 1, "as any reaped row")
	require.Equal(t, row.Fence+2, reaped[0].Fence)
	_, answer = o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Lost, answer)
}

func adoptRace(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	agents := []*rig{r.rig, r.second().rig, r.second().rig, r.second().rig}
	r.insert(20)
	rows := r.claim(under(beating(), 20))
	for _, row := range rows {
		r.detach(row)
	}
	r.Advance(t, time.Hour) // so that sweeps take them, too
	for _, o := range agents {
		o.present()
	}
	var adopted, reaped atomic.Int64
	together(agents, func(ctx context.Context, o *rig) error {
		if o == agents[0] {
			return nil
		}
		if o == agents[3] {
			for range 10 {
				rows, err := o.Sweep(ctx, o.session, 2, reapFor, o.view())
				if err != nil {
					return err
				}
				reaped.Add(int64(len(rows)))
			}
			return nil
		}
		for _, row := range rows {
			got, answer, err := o.Adopt(ctx, o.session, row.ID, row.Fence, reapFor)
			if err != nil {
				return err
			}
			if answer == store.Applied && got.Fence == row.Fence+1 {
				adopted.Add(1)
			}
		}
		return nil
	})
	require.EqualValues(t, len(rows), adopted.Load()+reaped.Load(), "each was reaped by one")
	for _, row := range rows {
		require.Equal(t, row.Fence+1, r.get(row.ID).Fence)
	}
}
