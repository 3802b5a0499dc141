package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func rateChecks() []Check {
	return []Check{
		{"no more start than the burst and what the rate brings", rateBounds},
		{"a limit and a rate", rateAndLimit},
		{"what never started gives its token back, once", rateBack},
		{"jumps of the clock bring one burst at most, and lose nothing", rateJumps},
		{"it brings no new burst when it comes back", rateReturns},
	}
}

// rated is a rate of a type without aliases, in starts an hour: no check takes so long that one more may start.
func rated(typ string, perHour float64, burst int) store.TypeLimit {
	return store.TypeLimit{Name: typ, Types: []string{typ}, Rate: perHour / 3600, Burst: burst}
}

func rateBounds(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	all := r.insert(40)
	r.limits(rated(kind, 10, 3))
	o.learns()
	got, rooms := r.claimRooms(want(kind, 2))
	require.Equal(t, all[:2], ids(got))
	require.Equal(t, map[string]store.Room{kind: {Limit: kind, Rows: 3, Rated: true}}, rooms)
	require.Equal(t, all[2:3], ids(o.claim(want(kind, 5))))
	r.settled(finish(got[0]), finish(got[1]))
	none, rooms := o.claimRooms(want(kind, 5))
	require.Empty(t, none, "ends make no room")
	require.InDelta(t, (6 * time.Minute).Seconds(), rooms[kind].Next.Seconds(), slack.Seconds())
	r.Advance(t, 13*time.Minute)
	r.limits(rated(kind, 10, 3))
	require.Len(t, r.claim(want(kind, 5)), 2)
	r.Advance(t, 10*time.Hour)
	r.limits(rated(kind, 10, 3))
	require.Len(t, r.claim(want(kind, 5)), 3, "no more than the burst at once")
	require.Empty(t, r.claim(want(kind, 5)))
}

func rateAndLimit(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(40)
	both := rated(kind, 10, 5)
	both.Most = 2
	r.limits(both)
	for range 2 {
		got, rooms := r.claimRooms(want(kind, 9))
		require.Len(t, got, 2)
		require.False(t, rooms[kind].Rated)
		none, rooms := r.claimRooms(want(kind, 9))
		require.Empty(t, none)
		require.False(t, rooms[kind].Rated, "it is the limit that leaves no room")
		r.settled(finish(got[0]), finish(got[1]))
	}
	got, _ := r.claimRooms(want(kind, 9))
	require.Len(t, got, 1, "now it is the rate")
	_, rooms := r.claimRooms(want(kind, 9))
	require.NotZero(t, rooms[kind].Next)
}

func rateBack(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(40)
	r.limits(rated(kind, 1, 4))
	got := r.claim(want(kind, 9))
	require.Len(t, got, 4)
	if unlock := r.LockRow(t, got[0].ID); unlock != nil {
		for range 3 {
			require.Equal(t, same(store.Busy, 1), r.settle(release(got[0])))
			require.Empty(t, r.claim(want(kind, 9)), "it is not released")
		}
		unlock()
	}
	r.settled(release(got[0]), retry(got[1], time.Hour), finish(got[2]))
	require.Equal(t, same(store.Ended, 1), r.settle(release(got[0])), "a repeat")
	again := r.claim(want(kind, 9))
	require.Equal(t, got[0].ID, again[0].ID)
	require.Len(t, again, 1)
	r.settled(finish(again[0]))
	require.Empty(t, r.claim(want(kind, 9)))
}

func rateJumps(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(40)
	r.limits(rated(kind, 10, 4))
	require.Len(t, r.claim(want(kind, 3)), 3)
	r.Advance(t, -day)
	r.limits(rated(kind, 10, 4))
	rows := r.Insert(t, store.EnqueueRequest{Type: kind, Priority: 5}, store.EnqueueRequest{Type: kind, Priority: 5},
		store.EnqueueRequest{Type: kind, Priority: 5}, store.EnqueueRequest{Type: kind, Priority: 5})
	require.Equal(t, rows[:1], ids(r.claim(want(kind, 9))), "one was left")
	r.Advance(t, 7*time.Minute)
	r.limits(rated(kind, 10, 4))
	require.Equal(t, rows[1:2], ids(r.claim(want(kind, 9))), "and the rate goes on")
	r.Advance(t, 10*day)
	r.limits(rated(kind, 10, 4))
	require.Len(t, r.claim(want(kind, 9)), 4)
	require.Empty(t, r.claim(want(kind, 9)))
}

func rateReturns(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.insert(10)
	r.limits(rated(kind, 1, 2))
	require.Len(t, r.claim(want(kind, 9)), 2)
	r.limits()
	var row task.Task
	for _, row = range r.claim(want(kind, 1)) {
		r.settled(finish(row))
	}
	r.limits(rated(kind, 1, 2))
	require.Empty(t, r.claim(want(kind, 9)))
}
