package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func lockLimitChecks() []Check {
	return []Check{
		{"what is held back takes no place", lockLimitPlaces},
		{"more rows of one lock than there is room for", lockLimitOne},
		{"what is held back takes no token", lockLimitTokens},
		{"the first wants get the room, and runs the locks", lockLimitPhases},
		{"what may be at work keeps its place and its lock", lockLimitUnknown},
		{"rows of batches", lockLimitBatch},
		{"agents that claim at once", lockLimitConcurrent},
	}
}

// claimed is what a claim has brought: rows, the room of kind before it, and whether there may be more.
type claimed struct {
	rows []task.ID
	room int
	cut  bool
}

// claimed claims rows of kind, which has a limit, and asserts what that brings.
func (r *lockRig) claimed(want claimed, wants ...store.Want) (rows []task.Task) {
	r.t.Helper()
	r.claims++
	cut, rooms := false, map[string]store.Room{}
	rows, err := r.Claim(r.ctx, store.Claim{Session: r.session, Number: r.claims, Wants: wants, Cut: &cut, Limited: rooms})
	require.NoError(r.t, err)
	want.rows = append([]task.ID{}, want.rows...)
	require.Equal(r.t, want, claimed{ids(rows), rooms[kind].Rows, cut})
	return rows
}

func lockLimitPlaces(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x, free := r.locked("x", 3), r.insert(3)
	r.limits(limited(kind, 3))
	got := r.claimed(claimed{x[:1], 3, true}, want(kind, 9))
	r.waitFor(x[1:], x...)
	r.claimed(claimed{free[:2], 2, false}, want(kind, 9))
	r.claimed(claimed{nil, 0, false}, want(kind, 9))
	r.promoted(0)
	r.settled(finish(got[0]))
	r.promoted(1)
	r.claimed(claimed{x[1:2], 1, false}, want(kind, 9))
	r.claimed(claimed{nil, 0, false}, want(kind, 9))
	r.waitFor(x[2:], x[1:]...)
}

func lockLimitOne(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 9)
	r.limits(limited(kind, 3))
	got := r.claimed(claimed{x[:1], 3, true}, want(kind, 9))
	for n := 3; n < 9; n += 2 {
		r.claimed(claimed{nil, 2, true}, want(kind, 9))
		r.waitFor(x[1:n+2], x...)
	}
	for n, id := range x {
		require.Equal(t, id, got[0].ID)
		r.settled(finish(got[0]))
		if n+1 < len(x) {
			r.promoted(1)
			got = r.claimed(claimed{x[n+1 : n+2], 3, false}, want(kind, 9))
		}
	}
	r.promoted(0)
	r.claimed(claimed{nil, 3, false}, want(kind, 9))
}

func lockLimitTokens(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x, free := r.locked("x", 3), r.insert(5)
	r.limits(rated(kind, 1, 4))
	got := r.claimed(claimed{[]task.ID{x[0], free[0]}, 4, true}, want(kind, 9))
	r.claimed(claimed{free[1:3], 2, false}, want(kind, 9))
	r.claimed(claimed{nil, 0, false}, want(kind, 9))
	r.settled(release(got[0]), finish(got[1]))
	r.promoted(1)
	got = r.claimed(claimed{x[:1], 1, false}, want(kind, 9))
	r.settled(finish(got[0]))
	r.promoted(1)
	r.claimed(claimed{nil, 0, false}, want(kind, 9))
}

func lockLimitPhases(t testing.TB, h Harness) {
	for _, room := range []int{1, 2} {
		r := newLockRig(t, h)
		name := fmt.Sprint("x", room)
		first := r.locked(name, 1)[0]
		row := r.claim(want(kind, 1))[0]
		require.Equal(t, first, row.ID)
		r.settled(ended(row, task.Failed, task.StateRollbackPending))
		second := r.locked(name, 1)[0]
		r.limits(limited(kind, room))
		back := want(kind, 5)
		back.Phase = task.Rollback
		starts, waits := first, second // the want of rollbacks has the only room
		if room == 2 {
			starts, waits = second, first
		}
		row = r.claimed(claimed{[]task.ID{starts}, room, room == 2}, back, want(kind, 5))[0]
		r.waitFor(map[int][]task.ID{2: {waits}}[room], first, second)
		end := map[task.Phase]task.State{task.Run: task.StateSucceeded, task.Rollback: task.StateRolledBack}
		r.settled(ended(row, task.Succeeded, end[row.Phase()]))
		r.promoted(room - 1)
		row = r.claimed(claimed{[]task.ID{waits}, room, false}, back, want(kind, 5))[0]
		r.settled(ended(row, task.Succeeded, end[row.Phase()]))
		r.promoted(0)
		r.limits()
	}
}

func lockLimitUnknown(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := r.locked("x", 2)
	r.limits(limited(kind, 2))
	row := r.claimed(claimed{x[:1], 2, true}, want(kind, 9))[0]
	end := ended(row, task.TimedOut, task.StateFailed)
	end.Next.AfterLease = true
	r.settled(end)
	free := r.insert(3)
	require.Zero(t, r.promote().Rows)
	late := r.locked("x", 1)
	r.claimed(claimed{free[:1], 1, false}, want(kind, 9))
	r.claimed(claimed{nil, 0, false}, want(kind, 9))
	r.Advance(t, window+time.Minute)
	r.limits(limited(kind, 2))
	r.promoted(1)
	r.claimed(claimed{x[1:], 1, false}, want(kind, 9))
	r.waitFor(nil, late...)
}

func lockLimitBatch(t testing.TB, h Harness) {
	r := newLockRig(t, h)
	x := store.EnqueueRequest{Type: kind, Lock: "x"}
	id, rows := r.batch(store.BatchRequest{}, x, x, x, store.EnqueueRequest{Type: kind})
	r.limits(limited(kind, 2))
	got := r.claimed(claimed{rows[:1], 2, true}, want(kind, 9))
	require.EqualValues(t, 1, r.inState(id, store.BatchRunning).Running)
	r.claimed(claimed{nil, 1, true}, want(kind, 9))
	r.claimed(claimed{rows[3:], 1, false}, want(kind, 9))
	b := r.inState(id, store.BatchRunning)
	require.EqualValues(t, 2, b.Running)
	require.EqualValues(t, 2, b.Waiting)
	r.settled(finish(got[0]))
	r.promoted(1)
	r.claimed(claimed{rows[1:2], 1, false}, want(kind, 9))
}

func lockLimitConcurrent(t testing.TB, h Harness) {
	const rows, most = 90, 3
	agents := crew(t, h)
	for _, o := range agents {
		o.limits(limited(kind, most))
	}
	reqs := make([]store.EnqueueRequest, rows)
	for i := range reqs {
		reqs[i] = store.EnqueueRequest{Type: kind, Priority: i % 2, Lock: []string{"x", "y", ""}[i%3]}
	}
	h.Insert(t, reqs...)
	watch := &lockWatch{running: map[string]task.ID{}}
	var running atomic.Int64
	together(agents, func(ctx context.Context, r *rig) error {
		for !watch.over(rows) {
			if ctx.Err() != nil {
				return fmt.Errorf("not all rows have ended: %w", ctx.Err())
			}
			r.claims++
			got, err := r.Claim(ctx, store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, 2)}})
			if err != nil {
				return err
			}
			if n := running.Add(int64(len(got))); n > most {
				return fmt.Errorf("%d tasks run", n)
			}
			if err := watch.starts(got); err != nil {
				return err
			}
			for _, row := range got {
				running.Add(-1)
				watch.ends(row, true)
				if _, err := r.Settle(ctx, r.session, []store.Settlement{finish(row)}); err != nil {
					return err
				}
			}
			if _, err := r.Promote(ctx, 10); err != nil {
				return err
			}
		}
		return nil
	})
}
