package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// thieves are agents that claim with leases that are over at once, sweep from each other, and settle what they have
// held whether it is still theirs or not.
type thieves struct {
	mu       sync.Mutex
	holds    map[hold]int    // by row and fence: how many were given it
	finishes map[task.ID]int // how many settlements that finish it were applied
	left     atomic.Int64    // rows that are not finished
}

func concurrentThieves(t testing.TB, h Harness) {
	agents := crew(t, h)
	all := agents[0].insert(80)
	th := &thieves{holds: map[hold]int{}, finishes: map[task.ID]int{}}
	th.left.Store(int64(len(all)))
	together(agents, func(ctx context.Context, r *rig) error {
		for th.left.Load() > 0 {
			if err := th.turn(ctx, r); err != nil {
				return err
			}
		}
		return nil
	})
	for held, n := range th.holds {
		require.Equal(t, 1, n, "row %d with fence %d was given out once", held.row, held.fence)
	}
	for _, id := range all {
		require.Equal(t, 1, th.finishes[id], "row %d was finished once", id)
		info := agents[0].get(id)
		require.Equal(t, task.StateSucceeded, info.State)
		last := task.Fence(0)
		for _, a := range info.History {
			require.Greater(t, a.Fence, last, "row %d: fences rise", id)
			last = a.Fence
		}
		require.Greater(t, info.Fence, last)
	}
	require.Empty(t, agents[0].present().Held)
}

// turn claims a few rows, sweeps a few, and settles them all: first attempts fail, the others finish.
func (th *thieves) turn(ctx context.Context, r *rig) error {
	r.claims++
	w := want(kind, 5)
	w.Window = 0
	rows, err := r.Claim(ctx, store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{w}})
	if err != nil {
		return err
	}
	reaped, err := r.Sweep(ctx, r.session, 3, reapFor, r.view())
	if err != nil {
		return err
	}
	for _, s := range reaped {
		rows = append(rows, s.Task)
	}
	var ends []store.Settlement
	for _, row := range rows {
		th.given(row)
		if row.Attempt == 1 {
			ends = append(ends, retry(row, 0))
		} else {
			ends = append(ends, finish(row))
		}
	}
	return th.settle(ctx, r, ends)
}

func (th *thieves) given(row task.Task) {
	th.mu.Lock()
	defer th.mu.Unlock()
	th.holds[hold{row: int(row.ID), fence: row.Fence}]++
}

// settle settles, and again what is busy. Each answer counts but busy; a row of one's own that is lost was stolen.
func (th *thieves) settle(ctx context.Context, r *rig, ends []store.Settlement) error {
	for len(ends) > 0 {
		answers, err := r.Settle(ctx, r.session, ends)
		if err != nil {
			return err
		}
		var again []store.Settlement
		for i, e := range ends {
			switch {
			case answers[i] == store.Busy:
				again = append(again, e)
			case answers[i] == store.Applied && e.Next.State.Finished():
				th.left.Add(-1)
				th.mu.Lock()
				th.finishes[e.ID]++
				th.mu.Unlock()
			case answers[i] == store.Ended:
				return fmt.Errorf("row %d, fence %d: ended before it was settled", e.ID, e.Fence)
			}
		}
		ends = again
	}
	return nil
}
