package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func pingChecks() []Check {
	return []Check{
		{"a ping moves the end, and nothing else", pingMoves},
		{"a ping never shortens", pingGreatest},
		{"a ping asks for longer", pingLonger},
		{"never past the attempt's end", pingEnd},
		{"never past the task's deadline", pingDeadline},
		{"no heartbeat, no renewal", pingQuiet},
		{"only progress counts", pingProgress},
		{"a rollback has terms of its own", pingRollback},
		{"an unknown policy", pingUnknown},
		{"answers come in the order of the rows", pingOrder},
		{"a stale fence pings nothing", pingStale},
		{"a lease that has ended takes none", pingLate},
		{"a row that is reaped takes none", pingReaped},
		{"a row that is kept takes them", pingKept},
		{"the heartbeat reports it", pingPresent},
		{"it is notified of a cancellation", pingCancelled},
		{"by SQL", pingBySQL},
		{"by SQL, with what SQL says", pingForms},
		{"by SQL, out of bounds", pingBounds},
		{"the secret is the store's", secret},
	}
}

func pingMoves(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	r.Advance(t, 14*time.Minute)
	before := r.get(row.ID)
	for range 2 {
		reply := o.ping(row, store.Ping{}) // whichever agent is asked
		require.Equal(t, store.PingReply{Answer: store.Applied, Counted: true, Remaining: reply.Remaining}, reply)
		require.InDelta(t, r.attemptLeft(beating(), row.ID), reply.Remaining, float64(slack))
		near(t, r.now().Add(12*time.Minute), r.leaseEnd(row.ID))
	}
	after := r.get(row.ID)
	before.LeaseEnd = after.LeaseEnd
	require.Equal(t, before, after)
	r.Advance(t, 11*time.Minute)
	r.present()
	require.Empty(t, o.sweep(10))
	r.settled(finish(row))
}

func pingGreatest(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.unchanged(row.ID, func() { r.counted(row, store.Ping{}) })
	r.counted(row, store.Ping{NextWithin: 30 * time.Minute})
	r.Advance(t, 5*time.Minute)
	end := r.leaseEnd(row.ID)
	near(t, r.now().Add(27*time.Minute), end)
	r.counted(row, store.Ping{})
	require.WithinDuration(t, end, r.leaseEnd(row.ID), time.Millisecond)
	require.InDelta(t, 10*time.Minute, r.held0().PingDue, float64(slack), "but the next ping is due as ever")
}

func pingLonger(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.Advance(t, 15*time.Minute)
	for _, c := range []struct{ asked, window time.Duration }{
		{time.Minute, 10 * time.Minute}, {20 * time.Minute, 20 * time.Minute}, {5 * time.Hour, 30 * time.Minute},
	} {
		r.counted(row, store.Ping{NextWithin: c.asked})
		near(t, r.now().Add(c.window+2*time.Minute), r.leaseEnd(row.ID))
		require.InDelta(t, c.window, r.held0().PingDue, float64(slack))
	}
}

func pingEnd(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	for range 7 {
		r.Advance(t, 15*time.Minute)
		r.counted(row, store.Ping{NextWithin: 30 * time.Minute})
	}
	left := 2*time.Hour + 3*time.Minute + time.Second - 7*15*time.Minute
	reply := r.counted(row, store.Ping{NextWithin: 30 * time.Minute})
	require.InDelta(t, left, reply.Remaining, float64(slack))
	require.InDelta(t, left, r.held0().PingDue, float64(slack))
	near(t, r.now().Add(left+2*time.Minute), r.leaseEnd(row.ID))

	r.Advance(t, left+time.Minute)
	end := r.leaseEnd(row.ID)
	reply = r.ping(row, store.Ping{Message: "nearly done", NextWithin: time.Hour})
	require.Equal(t, store.Applied, reply.Answer, "it is being stopped, and holds its row")
	require.Zero(t, reply.Remaining)
	require.WithinDuration(t, end, r.leaseEnd(row.ID), time.Millisecond)
	require.Equal(t, "nearly done", r.get(row.ID).Message)
	r.Advance(t, 2*time.Minute)
	require.Equal(t, store.PingReply{}, r.ping(row, store.Ping{NextWithin: time.Hour}))
}

func pingDeadline(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	r.insert(1)
	w := under(beating(), 1)
	w.Deadline = 25 * time.Minute
	row := r.claim(w)[0]
	r.Advance(t, 10*time.Minute)
	reply := r.counted(row, store.Ping{NextWithin: 30 * time.Minute})
	require.InDelta(t, 15*time.Minute, reply.Remaining, float64(slack))
	near(t, r.now().Add(17*time.Minute), r.leaseEnd(row.ID))
	require.InDelta(t, 15*time.Minute, r.held0().PingDue, float64(slack))
	r.Advance(t, 16*time.Minute)
	require.Zero(t, r.ping(row, store.Ping{}).Remaining)
}

func pingQuiet(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(quiet())
	r.Advance(t, 10*time.Minute)
	before := r.get(row.ID)
	reply := r.counted(row, store.Ping{
		Progress: raw(`0.4`), Message: "page 40", Checkpoint: raw(`{"page":40}`), NextWithin: time.Hour,
	})
	require.Empty(t, reply.Reason)
	require.InDelta(t, 30*time.Minute, reply.Remaining, float64(slack))
	require.Equal(t, before.LeaseEnd, r.get(row.ID).LeaseEnd)
	r.reports(row.ID, `0.4`, "page 40", `{"page":40}`)
	require.False(t, r.held0().Pinged, "no ping is due")
}

func pingProgress(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(moving())
	r.Advance(t, 10*time.Minute)
	refused := func(p store.Ping) {
		t.Helper()
		end := r.leaseEnd(row.ID)
		reply := r.ping(row, p)
		require.Equal(t, store.PingReply{
			Answer: store.Applied, Reason: "progress did not change", Remaining: reply.Remaining,
		}, reply)
		require.Positive(t, reply.Remaining)
		require.WithinDuration(t, end, r.leaseEnd(row.ID), time.Millisecond)
	}
	refused(store.Ping{})
	refused(store.Ping{Message: "only words", NextWithin: 30 * time.Minute})
	require.Equal(t, "only words", r.get(row.ID).Message, "stored all the same")
	require.False(t, r.held0().Pinged)

	forward := []store.Ping{
		{Progress: raw(`0.1`)}, {Progress: raw(`0.2`)}, {Checkpoint: raw(`{"page":1}`)}, {Progress: raw(`"page 2"`)},
		{Progress: raw(`{"done":3,"total":9}`)}, {Progress: raw(`{"done":4,"total":9}`), Checkpoint: raw(`{"page":1}`)},
		{Progress: raw(`{"done":4,"total":9}`), Checkpoint: raw(`{"page":4}`)}, {Progress: raw(`0.3`)},
	}
	for _, p := range forward {
		r.Advance(t, time.Minute)
		r.counted(row, p)
		near(t, r.now().Add(12*time.Minute), r.leaseEnd(row.ID))
		refused(p)
		refused(store.Ping{})
	}
	r.Advance(t, 13*time.Minute)
	r.present()
	require.Len(t, r.sweep(10), 1, "who pings and does not move is not kept")
}

func pingRollback(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	w := under(beating(), 1)
	w.Deadline = time.Minute
	r.insert(1)
	end := retry(r.claim(w)[0], 0)
	end.Next = task.Transition{State: task.StateRollbackPending, EverStarted: true}
	r.settled(end)
	w.Phase = task.Rollback
	w.Window = beating().Window(task.Rollback)
	row := r.claim(w)[0]
	r.Advance(t, 10*time.Minute) // past the deadline, which is the run's
	reply := r.counted(row, store.Ping{})
	require.InDelta(t, 50*time.Minute, reply.Remaining, float64(slack))
	require.InDelta(t, 20*time.Minute, r.held0().PingDue, float64(slack))
	r.counted(row, store.Ping{NextWithin: time.Hour})
	near(t, r.now().Add(44*time.Minute), r.leaseEnd(row.ID))
}

func pingUnknown(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.held() // under a policy that is not in the store
	r.Advance(t, time.Minute)
	r.unchanged(row.ID, func() {
		reply := r.counted(row, store.Ping{NextWithin: time.Hour})
		require.InDelta(t, window-time.Minute, reply.Remaining, float64(slack))
	})
}

func pingOrder(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	r.insert(4)
	rows := r.claim(under(beating(), 4))
	r.settled(finish(rows[1]))
	var all []store.RemotePing
	for i, row := range rows {
		all = append(all, store.RemotePing{ID: row.ID, Fence: row.Fence, Ping: store.Ping{Progress: raw(`0.` + string('1'+rune(i)))}})
	}
	stale := all[2]
	stale.Fence, stale.Progress = stale.Fence+1, raw(`0.9`)
	got := r.pings(all[3], all[1], stale, all[0], all[2], store.RemotePing{ID: 999_999_999, Fence: 1})
	var answers []store.Answer
	for _, reply := range got {
		answers = append(answers, reply.Answer)
		require.Equal(t, reply.Answer == store.Applied, reply.Counted)
	}
	require.Equal(t, []store.Answer{
		store.Applied, store.Lost, store.Lost, store.Applied, store.Applied, store.Lost,
	}, answers)
	r.reports(rows[0].ID, `0.1`, "", "")
	r.reports(rows[1].ID, "", "", "")
	r.reports(rows[2].ID, `0.3`, "", "")
	r.reports(rows[3].ID, `0.4`, "", "")
	require.Empty(t, r.pings())
}

// everything is a ping that changes all that a ping can.
func everything() store.Ping {
	return store.Ping{
		Progress: raw(`0.99`), Message: "stale", Checkpoint: raw(`"stale"`), NextWithin: 30 * time.Minute,
	}
}

func pingStale(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.Advance(t, 10*time.Minute)
	refused := func(id task.ID, fences ...task.Fence) {
		t.Helper()
		r.unchanged(row.ID, func() {
			for _, f := range fences {
				require.Equal(t, store.PingReply{}, r.ping(task.Task{ID: id, Fence: f}, everything()), "fence %d", f)
				_, err := r.pingSQL(id, f, everything())
				gone(t, err)
			}
		})
	}
	refused(row.ID, 0, -1, row.Fence-1, row.Fence+1, row.Fence+2)
	refused(999_999_999, row.Fence)
	r.settled(retry(row, 0))
	refused(row.ID, row.Fence, row.Fence+1, row.Fence+2)
	next := r.claim(under(beating(), 1))[0]
	refused(row.ID, row.Fence, row.Fence+1)
	r.counted(next, store.Ping{})
	r.settled(finish(next))
	refused(row.ID, row.Fence, next.Fence, next.Fence+1)
}

func pingLate(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.Advance(t, beating().Window(task.Run)+time.Minute)
	r.unchanged(row.ID, func() {
		require.Equal(t, store.PingReply{}, r.ping(row, everything()), "though it is not reaped yet")
		_, err := r.pingSQL(row.ID, row.Fence, everything())
		gone(t, err)
	})
}

func pingReaped(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Len(t, o.sweep(10), 1)
	r.unchanged(row.ID, func() {
		for _, f := range []task.Fence{row.Fence, row.Fence + 1} {
			require.Equal(t, store.PingReply{}, r.ping(task.Task{ID: row.ID, Fence: f}, everything()), "fence %d", f)
			_, err := r.pingSQL(row.ID, f, everything())
			gone(t, err)
		}
	})
}

func pingKept(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	r.Advance(t, 10*time.Minute)
	release := r.LockRow(t, row.ID)
	if release == nil {
		return // no locks on rows
	}
	defer release()
	r.counted(row, store.Ping{})
	near(t, r.now().Add(12*time.Minute), r.leaseEnd(row.ID))
}

func pingPresent(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	got := r.held0()
	require.False(t, got.Pinged)
	require.InDelta(t, beating().Window(task.Run), got.Left, float64(slack))
	r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: 20 * time.Minute})
	got = r.held0()
	require.False(t, got.Pinged, "its own session's renewals are no news to it")
	require.InDelta(t, 20*time.Minute, got.Left, float64(slack))
	r.counted(row, store.Ping{NextWithin: 25 * time.Minute})
	got = r.held0()
	require.True(t, got.Pinged)
	require.InDelta(t, 25*time.Minute, got.PingDue, float64(slack))
	require.InDelta(t, 27*time.Minute, got.Left, float64(slack))
	r.Advance(t, 26*time.Minute)
	got = r.held0()
	require.InDelta(t, -time.Minute, got.PingDue, float64(slack), "it is late")
	require.InDelta(t, time.Minute, got.Left, float64(slack))

	r.settled(retry(row, 0))
	r.claim(under(beating(), 1))
	require.False(t, r.held0().Pinged, "that was the attempt before")
}

func pingCancelled(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	for _, p := range []*task.Policy{beating(), moving()} {
		row := r.heldUnder(p)
		require.Equal(t, store.Cancelling, r.cancel(row.ID, "alice"))
		reply := r.ping(row, store.Ping{})
		require.Equal(t, store.Applied, reply.Answer)
		require.True(t, reply.Cancel)
		require.Equal(t, "cancellation requested by alice", reply.Reason)
		require.Equal(t, !p.RequireProgress, reply.Counted)
		reply = r.counted(row, store.Ping{Progress: raw(`0.5`)})
		require.True(t, reply.Cancel)
		r.settled(finish(row))
	}
	row := r.heldUnder(beating())
	require.Equal(t, store.Cancelling, r.cancel(row.ID, ""))
	require.Equal(t, "cancellation requested", r.ping(row, store.Ping{}).Reason)
	other, err := r.pingSQL(row.ID, row.Fence, store.Ping{})
	require.NoError(t, err)
	require.True(t, other == nil || other.Cancel && other.Counted)
}

func secret(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	mine, err := r.Secret(r.ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(mine), 32)
	other, err := r.second().Secret(r.ctx)
	require.NoError(t, err)
	require.Equal(t, mine, other)
	r.Advance(t, 1000*time.Hour)
	_, err = r.Maintain(r.ctx, day)
	require.NoError(t, err)
	other, err = r.Secret(r.ctx)
	require.NoError(t, err)
	require.Equal(t, mine, other)
}
