package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// A settlement or a renewal may be repeated, come late, or come from one who holds nothing.
func repeatChecks() []Check {
	return []Check{
		{"a finished row's settlement", repeatFinished},
		{"a later attempt's finish", repeatFinishedLater},
		{"a released row's settlement", repeatReleased},
		{"of a row that was claimed again", repeatClaimedAgain},
		{"of a row that was claimed again and finished", repeatFinishedByNext},
		{"a silent settlement", repeatSilent},
		{"with other words", repeatOther},
		{"the same row twice in one call", repeatTwice},
		{"a stale fence settles nothing", staleSettle},
		{"a foreign session settles nothing", foreignSettle},
		{"a stale fence renews nothing", staleRenew},
		{"a foreign session renews nothing", foreignRenew},
		{"the old holder of a reaped row", reapedHolder},
	}
}

// unchanged asserts that f changes nothing of the row.
func (r *rig) unchanged(id task.ID, f func()) {
	r.t.Helper()
	before := r.get(id)
	f()
	after := r.get(id)
	after.FollowedBy = before.FollowedBy // a follower changes nothing of the row
	require.Equal(r.t, before, after)
}

func repeatFinished(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(finish(row))
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Ended, 1), r.settle(finish(row)))
		require.Equal(t, same(store.Ended, 1), r.settle(finish(row)))
	})
	r.Advance(t, time.Hour)
	require.Equal(t, same(store.Ended, 1), r.settle(finish(row)))
}

func repeatFinishedLater(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(retry(row, 0))
	second := r.claim(want(kind, 1))[0]
	r.settled(finish(second))
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Ended, 2), r.settle(finish(second), retry(row, 0)))
	})
}

func repeatReleased(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(retry(row, time.Hour))
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Ended, 1), r.settle(retry(row, time.Hour)))
		require.Equal(t, same(store.Ended, 1), r.settle(retry(row, 0)))
	})
}

func repeatClaimedAgain(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	r.settled(retry(row, 0))
	next := o.claim(want(kind, 1))[0]
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Ended, 1), r.settle(retry(row, 0)))
	})
	require.Equal(t, same(store.Lost, 1), o.settle(retry(row, 0)), "it was another's")
	o.settled(retry(next, 0))
	again := r.claim(want(kind, 1))[0]
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Ended, 1), r.settle(retry(row, 0)), "also by the same session")
	})
	r.settled(finish(again))
}

func repeatFinishedByNext(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	r.settled(retry(row, 0))
	next := o.claim(want(kind, 1))[0]
	o.settled(finish(next))
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Ended, 1), r.settle(retry(row, 0)))
		require.Equal(t, same(store.Ended, 1), o.settle(finish(next)))
	})
}

func repeatSilent(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(release(row))
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Ended, 1), r.settle(release(row)))
	})
}

func repeatOther(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(finish(row))
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Ended, 1), r.settle(retry(row, 0)), "the first word stands")
	})
}

func repeatTwice(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, end := range []func(task.Task) store.Settlement{
		finish, release,
		func(row task.Task) store.Settlement { return retry(row, time.Hour) },
	} {
		row, beside := r.held(), r.held()
		got := r.settle(end(row), finish(beside), end(row))
		require.Contains(t, got, store.Applied)
		for _, i := range []int{0, 2} {
			require.Contains(t, []store.Answer{store.Applied, store.Ended}, got[i])
		}
		require.Equal(t, store.Applied, got[1])
		info := r.get(row.ID)
		require.Equal(t, end(row).Next.State, info.State)
		require.Equal(t, row.Fence+1, info.Fence, "it was applied once")
		require.LessOrEqual(t, len(info.History), 1)
		if info.State == task.StatePending {
			r.settled(finish(r.claim(want(kind, 1))[0]))
		}
	}
}

func staleSettle(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	r.settled(release(row))
	next := o.claim(want(kind, 1))[0]
	require.Greater(t, next.Fence, row.Fence)
	r.unchanged(row.ID, func() {
		for _, fence := range []task.Fence{0, row.Fence - 1, next.Fence - 1, next.Fence + 1, -1} {
			stale := finish(next)
			stale.Fence = fence
			require.Equal(t, same(store.Lost, 1), o.settle(stale), "fence %d", fence)
		}
	})
	o.settled(finish(next))
}

func foreignSettle(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Lost, 2), o.settle(finish(row), retry(row, 0)))
	})
	r.settled(retry(row, time.Hour))
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Lost, 1), o.settle(retry(row, time.Hour)), "a repeat is the holder's alone")
	})
	row = r.held()
	r.settled(finish(row))
	r.unchanged(row.ID, func() {
		require.Equal(t, same(store.Lost, 1), o.settle(finish(row)))
	})
}

func staleRenew(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	renew := func(s task.Session, id task.ID, fence task.Fence) store.Answer {
		t.Helper()
		got, err := r.Renew(r.ctx, s, []store.Renewal{{ID: id, Fence: fence, Window: 3 * window, Exact: fence%2 == 0}})
		require.NoError(t, err)
		require.Len(t, got, 1)
		return got[0]
	}
	r.unchanged(row.ID, func() {
		for _, fence := range []task.Fence{0, row.Fence - 1, row.Fence + 1, row.Fence + 2, -1} {
			require.Equal(t, store.Lost, renew(r.session, row.ID, fence), "fence %d", fence)
		}
		require.Equal(t, store.Lost, renew(r.session, 999_999_999, row.Fence))
	})
	r.settled(retry(row, time.Hour))
	r.unchanged(row.ID, func() {
		require.Equal(t, store.Lost, renew(r.session, row.ID, row.Fence))
		require.Equal(t, store.Lost, renew(r.session, row.ID, row.Fence+1), "no session holds a row that waits")
	})
	row = r.held()
	r.settled(finish(row))
	r.unchanged(row.ID, func() {
		require.Equal(t, store.Lost, renew(r.session, row.ID, row.Fence))
		require.Equal(t, store.Lost, renew(r.session, row.ID, row.Fence+1))
	})
}

func foreignRenew(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	r.unchanged(row.ID, func() {
		for _, exact := range []bool{false, true} {
			got, err := o.Renew(o.ctx, o.session, []store.Renewal{
				{ID: row.ID, Fence: row.Fence, Window: 3 * window, Exact: exact},
			})
			require.NoError(t, err)
			require.Equal(t, same(store.Lost, 1), got)
		}
	})
}

func reapedHolder(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	row := r.held()
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	r.unchanged(row.ID, func() {
		for _, fence := range []task.Fence{row.Fence, reaped[0].Fence} {
			end := finish(row)
			end.Fence = fence
			require.Equal(t, same(store.Lost, 1), r.settle(end))
			got, err := r.Renew(r.ctx, r.session, []store.Renewal{{ID: row.ID, Fence: fence, Window: 3 * window}})
			require.NoError(t, err)
			require.Equal(t, same(store.Lost, 1), got)
		}
	})
	require.Empty(t, r.present().Held)
	reapedRow := retry(reaped[0].Task, 0)
	reapedRow.RanFence = reaped[0].RanFence
	o.settled(reapedRow)
	require.Equal(t, same(store.Lost, 1), r.settle(finish(row)))
}
