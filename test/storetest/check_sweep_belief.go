package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What a session believes of the store's clock and of other sessions, and what it may sweep by that.

func sweepClockBack(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	r.Advance(t, -24*time.Hour)
	require.Empty(t, o.sweep(10), "no session has been seen since")
	o.present()
	r.present()
	require.Empty(t, o.sweep(10))
	r.Advance(t, -24*time.Hour)
	o.present()
	reaped := o.sweep(10)
	require.Len(t, reaped, 1, "its session has not been seen since, however far ahead its presence ends")
	require.Equal(t, row.ID, reaped[0].ID)
	require.False(t, reaped[0].Present)
}

// Until a jump of the store's clock is detected, a sweep has the time from before it.
func sweepClockMoved(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	asked := 0
	var silent []store.Sighting
	believes := func(off time.Duration) []store.Reaped {
		reaped, err := o.Sweep(o.ctx, o.session, 10, reapFor, func() store.View {
			asked++
			return store.View{Now: o.Now().Add(off), Calm: later, Silent: silent}
		})
		require.NoError(t, err)
		return reaped
	}
	r.Advance(t, presence+time.Minute)
	o.present()
	silent = o.sessions()
	for _, off := range []time.Duration{-later, -slack, slack, later} {
		require.Empty(t, believes(off), "it is off by %s", off)
	}
	never, err := o.Sweep(o.ctx, o.session, 10, reapFor, func() store.View { return store.View{} })
	require.NoError(t, err)
	require.Empty(t, never, "it does not know the time")
	require.Equal(t, row.Fence, r.get(row.ID).Fence)
	reaped := believes(0)
	require.Len(t, reaped, 1)
	require.Equal(t, row.ID, reaped[0].ID)
	require.LessOrEqual(t, asked, 5, "each time once")
}

// After a jump of the clock a session may be alive until the presence ends that it had before.
func sweepCalm(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row, mine := r.held(), o.held()
	r.Advance(t, later)
	o.present()
	calm := func(d time.Duration) []store.Reaped {
		silent := o.sessions()
		reaped, err := o.Sweep(o.ctx, o.session, 10, reapFor, func() store.View {
			return store.View{Now: o.Now(), Calm: d, Silent: silent}
		})
		require.NoError(t, err)
		return reaped
	}
	reaped := calm(0)
	require.Len(t, reaped, 1, "it knows of itself that it is not")
	require.Equal(t, mine.ID, reaped[0].ID)
	require.Empty(t, calm(presence-slack))
	require.Equal(t, row.Fence, r.get(row.ID).Fence)
	require.Len(t, calm(presence+slack), 1)

	r.present()
	next := r.held()
	r.Advance(t, presence/2)
	o.present()
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped = calm(slack)
	require.Len(t, reaped, 1, "it has left, so it is not there")
	require.Equal(t, next.ID, reaped[0].ID)
}

// After a jump of the store's clock all sessions are absent until each has written its next heartbeat. The session that
// sweeps first must not find all others dead.
func sweepAbsent(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	own := o.held()
	r.Advance(t, presence+time.Minute)
	require.Empty(t, o.sweep(10), "it is absent itself")
	require.Equal(t, row.Fence, r.get(row.ID).Fence)
	require.Equal(t, own.Fence, r.get(own.ID).Fence)
	o.present()
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	require.Equal(t, row.ID, reaped[0].ID)
	require.NoError(t, o.Leave(o.ctx, o.session))
	require.Empty(t, o.sweep(10), "an agent that has left reaps nothing")
}

// The store's clock can jump twice unseen. So a session that has expired by that clock may be alive, unless the one that sweeps
// has seen for long that it writes no heartbeat.
func sweepDoubtful(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	sweep := func(silent ...store.Sighting) []store.Reaped {
		reaped, err := o.Sweep(o.ctx, o.session, 10, reapFor, func() store.View {
			return store.View{Now: o.Now(), Calm: later, Silent: silent}
		})
		require.NoError(t, err)
		return reaped
	}
	taken := func(why string, silent ...store.Sighting) {
		reaped := sweep(silent...)
		require.Len(t, reaped, 1, why)
		o.settled(retry(reaped[0].Task, 10*365*24*time.Hour))
	}
	hold := func() task.Task {
		r.present()
		r.insert(1)
		w := want(kind, 1)
		w.Window = 30 * 24 * time.Hour
		return r.claim(w)[0]
	}
	row := hold()
	expired := func(by time.Duration) []store.Sighting {
		r.Advance(t, by)
		o.present()
		return o.sessions()
	}
	seen := expired(presence + time.Minute)
	require.Len(t, seen, 1)
	require.Empty(t, sweep())
	require.Empty(t, sweep(store.Sighting{Session: o.session, SeenAt: seen[0].SeenAt}), "it was another one that was silent")

	short := agent(r.name)
	short.Presence = 5 * time.Millisecond
	st, err := r.Present(r.ctx, store.Heartbeat{Session: r.session, Agent: short})
	require.NoError(t, err)
	for o.now().Before(st.Now.Add(2 * short.Presence)) {
	}
	require.Empty(t, sweep(seen...), "it has written another heartbeat since, and expired again")
	require.Equal(t, row.Fence, r.get(row.ID).Fence)
	taken("it has written none since", o.sessions()...)

	hold()
	seen = expired(-24 * time.Hour)
	require.Empty(t, sweep(), "it was seen in the future")
	taken("it has written none since", seen...)

	hold()
	expired(8 * 24 * time.Hour)
	_, err = r.Maintain(r.ctx, 24*time.Hour)
	require.NoError(t, err)
	require.Empty(t, sweep(), "however long ago it expired")
	taken("it has written none since", o.sessions()...)

	hold()
	require.NoError(t, r.Leave(r.ctx, r.session))
	taken("it has left")
}

func sweepSessions(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	third := r.other("third")
	require.Equal(t, store.Holders{}, o.holders(), "none holds a row")
	third.held()
	o.held()
	row := r.held()
	require.NoError(t, third.Leave(r.ctx, third.session))
	first := o.holders()
	require.Len(t, first.Others, 1, "neither itself nor one that has left")
	require.Equal(t, r.session, first.Others[0].Session)
	require.Equal(t, presence, first.Others[0].Presence)
	require.True(t, first.Expired, "one has left")
	o.settled(retry(o.sweep(10)[0].Task, 10*365*24*time.Hour))
	next := o.holders()
	require.Equal(t, first.Others, next.Others, "the same heartbeat")
	require.False(t, next.Expired)
	for o.sessions()[0].SeenAt.Equal(first.Others[0].SeenAt) {
		r.present()
	}
	r.Advance(t, presence+time.Minute)
	o.present()
	require.Len(t, o.sessions(), 1, "it has expired")
	require.True(t, o.holders().Expired)
	r.present()
	require.False(t, o.holders().Expired, "both are present again")
	r.Advance(t, -24*time.Hour)
	o.present()
	require.Len(t, o.sessions(), 1, "it was seen in the future")
	require.True(t, o.holders().Expired)
	r.present()
	require.False(t, o.holders().Expired)
	r.settled(finish(row))
	require.Empty(t, o.sessions(), "it holds nothing any more")
	r.Advance(t, 24*time.Hour+window)
	o.present()
	require.True(t, o.holders().Expired, "a lease of its own")
	require.Empty(t, o.sessions())
}
