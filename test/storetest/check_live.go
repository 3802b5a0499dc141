package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What is about all the calls of liveness together.
func liveChecks() []Check {
	return []Check{
		{"a context that has ended", liveContext},
		{"texts that are SQL", liveSQL},
		{"policies keep all they say", livePolicies},
		{"a story of two agents", liveHistory},
	}
}

func liveContext(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	r.unchanged(row.ID, func() {
		_, err := r.Secret(ended)
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.TakePings(ended, []store.RemotePing{{ID: row.ID, Fence: row.Fence, Ping: everything()}})
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.Complete(ended, row.ID, row.Fence, nil)
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.Completed(ended, []store.Held{{ID: row.ID, Fence: row.Fence}})
		require.ErrorIs(t, err, context.Canceled)
		_, _, err = r.Adopt(ended, r.session, row.ID, row.Fence, reapFor)
		require.ErrorIs(t, err, context.Canceled)
		_, err = r.Cancel(ended, row.ID, "alice")
		require.ErrorIs(t, err, context.Canceled)
	})
	r.settled(finish(row))
}

func liveSQL(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for _, text := range []string{"'; DROP TABLE task; --", `"quoted"`, "$1", "%_\\", "{}", "ünïcode ☃"} {
		row := r.heldUnder(beating())
		_, err := r.pingSQL(row.ID, row.Fence, store.Ping{Progress: asJSON(t, text), Message: text, Checkpoint: asJSON(t, text)})
		require.NoError(t, err)
		r.reports(row.ID, string(asJSON(t, text)), text, string(asJSON(t, text)))
		_, err = r.cancelSQL(row.ID, text)
		require.NoError(t, err)
		require.Equal(t, text, r.held0().CancelReason)
		require.Equal(t, "cancellation requested by "+text, r.ping(row, store.Ping{}).Reason)
		require.NoError(t, r.completeSQL(row.ID, row.Fence, string(asJSON(t, text))))
		require.Equal(t, text, r.get(row.ID).CancelRequestedBy)
	}
}

func livePolicies(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	all := map[task.PolicyHash]task.Policy{}
	for _, p := range []*task.Policy{beating(), moving(), quiet()} {
		all[p.Hash("a")] = *p
	}
	got, err := r.Policies(r.ctx, []task.PolicyHash{beating().Hash("a"), moving().Hash("a"), quiet().Hash("a")})
	require.NoError(t, err)
	require.Equal(t, all, got)
}

// liveHistory is a task that is begun by one agent, accepted for later, cancelled, rolled back by another, and all of it
// with replies lost on the way.
func liveHistory(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	r.detach(row)
	r.detach(row)
	require.NoError(t, r.Leave(r.ctx, r.session))
	for range 2 {
		o.counted(row, store.Ping{Progress: raw(`0.4`), Checkpoint: raw(`{"page":40}`)})
		require.Equal(t, store.Cancelling, o.cancel(row.ID, "alice"))
		require.True(t, o.ping(row, store.Ping{}).Cancel)
	}
	var end = retry(row, 0)
	for range 2 {
		reaped, answer := o.adopt(row.ID, row.Fence)
		require.Equal(t, store.Applied, answer)
		end = retry(reaped.Task, 0)
		end.RanFence = reaped.RanFence
		require.Equal(t, same(store.CancelPending, 1), o.settle(end))
	}
	end.CancelKnown, end.Next = true, task.Transition{State: task.StateRollbackPending, EverStarted: true}
	o.settled(end)
	require.Equal(t, same(store.Ended, 1), o.settle(end))
	_, answer := o.adopt(row.ID, row.Fence)
	require.Equal(t, store.Ended, answer)
	require.Equal(t, store.Became("rollback_pending"), o.cancel(row.ID, "alice"))

	w := under(beating(), 1)
	w.Phase, w.Window = task.Rollback, beating().Window(task.Rollback)
	back := o.claim(w)[0]
	require.JSONEq(t, `{"page":40}`, string(back.Checkpoint))
	o.Advance(t, 10*time.Minute)
	o.counted(back, store.Ping{})
	require.Equal(t, store.PingReply{}, o.ping(row, everything()))
	require.Equal(t, store.Lost, o.complete(row.ID, row.Fence, `1`))
	require.Equal(t, store.Applied, o.complete(back.ID, back.Fence, ``))
	require.Equal(t, store.Ended, o.complete(back.ID, back.Fence, ``))
	require.Equal(t, same(store.Ended, 1), o.settle(finish(back)))
	got := r.get(row.ID)
	require.Equal(t, task.StateRolledBack, got.State)
	require.Len(t, got.History, 2)
}
