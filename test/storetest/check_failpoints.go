package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func failpointChecks() []Check {
	return []Check{
		{"each is hit, and none loses or doubles a row", failpoints},
		{"a sweep takes over after a crash", failpointsReaped},
	}
}

// errCrash is what the store is made to fail with.
var errCrash = errors.New("crash made by the test")

// crash makes the store fail once at the point, and gives a function that reports whether it has.
func (r *rig) crash(point string) (hit func() bool) {
	var mu sync.Mutex
	done := false
	r.Fail(func(at string) error {
		mu.Lock()
		defer mu.Unlock()
		if at != point || done {
			return nil
		}
		done = true
		return errCrash
	})
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done
	}
}

// mixed is one settlement of each kind, for four rows that are held.
func mixed(rows []task.Task) []store.Settlement {
	failed := finish(rows[1])
	failed.Next.State, failed.Outcome = task.StateFailed, task.Outcome{Verdict: task.Rejected, Error: "never"}
	return []store.Settlement{finish(rows[0]), failed, retry(rows[2], time.Hour), release(rows[3])}
}

// accounted asserts that each row is there once, as it was claimed or as its settlement left it.
func (r *rig) accounted(rows []task.Task, ends []store.Settlement) {
	r.t.Helper()
	all := r.list(store.TaskFilter{Limit: 1000})
	for i, row := range rows {
		n := 0
		for _, id := range all {
			if id == row.ID {
				n++
			}
		}
		require.Equal(r.t, 1, n, "row %d is there once", row.ID)
		info := r.get(row.ID)
		switch info.Fence {
		case row.Fence:
			require.Equal(r.t, task.StateRunning, info.State)
			require.Empty(r.t, info.History)
		case row.Fence + 1:
			require.Equal(r.t, ends[i].Next.State, info.State)
		default:
			require.Fail(r.t, "a fence from nowhere", "%d, claimed with %d", info.Fence, row.Fence)
		}
	}
}

func failpoints(t testing.TB, h Harness) {
	r := newRig(t, h)
	points := r.Failpoints()
	require.NotEmpty(t, points)
	for _, point := range points {
		r.insert(4)
		rows := r.claim(want(kind, 4))
		require.Len(t, rows, 4)
		ends := mixed(rows)
		hit := r.crash(point)
		_, err := r.Settle(r.ctx, r.session, ends)
		require.True(t, hit(), "%q was not come by", point)
		require.ErrorIs(t, err, errCrash, "%q", point)
		r.Fail(nil)
		r.accounted(rows, ends)

		applied := r.settle(ends...)
		require.Equal(t, same(applied[0], 4), applied, "%q: all or none", point)
		require.Contains(t, []store.Answer{store.Applied, store.Ended}, applied[0], "%q", point)
		require.Equal(t, same(store.Ended, 4), r.settle(ends...), "%q", point)
		r.accounted(rows, ends)
		for i, row := range rows {
			require.Equal(t, row.Fence+1, r.get(row.ID).Fence, "%q: it is settled once", point)
			require.Equal(t, ends[i].Next.State, r.state(row.ID), "%q", point)
		}
		require.Len(t, r.get(rows[2].ID).History, 1, "%q", point)
		require.Empty(t, r.present().Held, "%q", point)
		r.settled(finish(r.claim(want(kind, 1))[0])) // what was released
	}
}

func failpointsReaped(t testing.TB, h Harness) {
	r := newRig(t, h)
	o := r.other("second")
	for _, point := range r.Failpoints() {
		r.present()
		r.insert(4)
		rows := r.claim(want(kind, 4))
		ends := mixed(rows)
		hit := r.crash(point)
		_, err := r.Settle(r.ctx, r.session, ends)
		require.ErrorIs(t, err, errCrash)
		require.True(t, hit())
		r.Fail(nil)
		require.NoError(t, r.Leave(r.ctx, r.session))
		reaped := o.sweep(10)
		require.Contains(t, []int{0, 4}, len(reaped), "%q: all are settled, or none", point)
		for _, row := range reaped {
			o.settled(finish(row.Task))
		}
		want4 := same(store.Ended, 4)
		if len(reaped) > 0 {
			want4 = same(store.Lost, 4)
		}
		require.Equal(t, want4, r.settle(ends...), "%q", point)
		if len(reaped) == 0 {
			r.settled(finish(r.claim(want(kind, 1))[0]))
		}
	}
}
