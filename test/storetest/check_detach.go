package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func detachChecks() []Check {
	return []Check{
		{"it is marked", detachMarked},
		{"it outlives its session", detachOutlives},
		{"it outlives its session's leaving", detachLeft},
		{"it is reaped when its window ends", detachReaped},
		{"its outcome depends on the reaper", detachedReaped},
		{"the next attempt is not", detachReleased},
		{"any session may complete it", detachCompleted},
	}
}

func detachMarked(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	row := r.heldUnder(beating())
	require.False(t, r.held0().Detached)
	before := r.get(row.ID)
	for range 2 {
		r.detach(row)
		require.True(t, r.held0().Detached)
	}
	after := r.get(row.ID)
	require.True(t, after.Detached)
	before.Detached = true
	require.Equal(t, before, after, "and nothing else")
	require.Equal(t, store.Applied, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Window: time.Hour}))
	require.True(t, r.held0().Detached, "a renewal does not bring it back")
	require.Equal(t, store.Applied, r.renewOne(store.Renewal{ID: row.ID, Fence: row.Fence, Report: reported(`0.5`, "", "")}))
	require.True(t, r.held0().Detached, "nor does one with a report")
}

func detachOutlives(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	r.insert(2)
	rows := r.claim(under(beating(), 2))
	r.detach(rows[0])
	r.Advance(t, presence+time.Minute)
	o.present()
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, rows[1].ID, reaped[0].ID)
	require.False(t, reaped[0].Detached)
	o.settled(finish(reaped[0].Task))
	for range 4 {
		r.counted(rows[0], store.Ping{})
		r.Advance(t, 8*time.Minute)
		o.present()
		require.Empty(t, o.sweep(10), "pings alone keep it")
	}
	r.settled(finish(rows[0]))
}

func detachLeft(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	r.detach(row)
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Empty(t, o.sweep(10))
	r.counted(row, store.Ping{})
	require.NoError(t, r.holdSQL(row.ID, row.Fence))
	require.Empty(t, o.present().Held, "no other session gets it for that")
	require.Len(t, r.present().Held, 1, "and its session's, should it come back")
}

func detachReaped(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	r.detach(row)
	r.Advance(t, beating().Window(task.Run)+time.Minute)
	o.present()
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, row.ID, reaped[0].ID)
	require.True(t, reaped[0].Detached)
	require.False(t, reaped[0].Present)
	require.Equal(t, row.Fence, reaped[0].RanFence)
	require.Equal(t, row.Fence+1, reaped[0].Fence)
	require.Equal(t, store.PingReply{}, r.ping(row, store.Ping{}))
	end := retry(reaped[0].Task, 0)
	end.RanFence = reaped[0].RanFence
	o.settled(end)
	next := o.claim(under(beating(), 1))
	require.Len(t, next, 1)
	o.settled(finish(next[0]))
}

func detachedReaped(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o, third := r.second(), r.second()
	row := r.heldUnder(beating())
	r.detach(row)
	r.Advance(t, beating().Window(task.Run)+time.Minute)
	o.present()
	third.present()
	require.Len(t, o.sweep(10), 1)
	require.False(t, r.get(row.ID).Detached)
	require.Empty(t, third.sweep(10))
	require.NoError(t, o.Leave(o.ctx, o.session))
	reaped := third.sweep(10)
	require.Len(t, reaped, 1, "the reaper is gone")
	require.False(t, reaped[0].Detached)
}

func detachReleased(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	r.detach(row)
	r.settled(retry(row, 0))
	require.False(t, r.get(row.ID).Detached)
	next := o.claim(under(beating(), 1))[0]
	require.False(t, o.held0().Detached)
	require.NoError(t, o.Leave(o.ctx, o.session))
	reaped := r.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, next.Fence, reaped[0].RanFence)
	r.settled(finish(reaped[0].Task))
	require.False(t, r.get(row.ID).Detached)

	row = r.heldUnder(beating())
	r.detach(row)
	r.settled(finish(row))
	require.False(t, r.get(row.ID).Detached, "nor is a finished task")
}

func detachCompleted(t testing.TB, h Harness) {
	r := newLiveRig(t, h)
	o := r.second()
	row := r.heldUnder(beating())
	r.detach(row)
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.Equal(t, store.Applied, o.complete(row.ID, row.Fence, `{"ok":true}`))
	info := r.get(row.ID)
	require.Equal(t, task.StateSucceeded, info.State)
	require.Equal(t, r.session, info.Session)
	require.False(t, info.Detached)
	row = r.heldUnder(beating())
	r.detach(row)
	require.NoError(t, r.Leave(r.ctx, r.session))
	require.NoError(t, r.completeSQL(row.ID, row.Fence, ``))
	require.Equal(t, task.StateSucceeded, r.state(row.ID))
}
