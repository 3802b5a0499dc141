package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// lockWatch sees which rows run with a lock, from many goroutines.
type lockWatch struct {
	mu      sync.Mutex
	running map[string]task.ID
	done    int
}

// starts notes that rows run. It is an error if another runs with the lock of one.
func (w *lockWatch) starts(rows []task.Task) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range rows {
		if other, there := w.running[r.Lock]; there && r.Lock != "" {
			return fmt.Errorf("task %d runs with lock %s, and so does task %d", r.ID, r.Lock, other)
		}
		w.running[r.Lock] = r.ID
	}
	return nil
}

// ends notes that a row runs no more. It is called before the store learns of it.
func (w *lockWatch) ends(r task.Task, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, r.Lock)
	if last {
		w.done++
	}
}

func (w *lockWatch) over(all int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done == all
}

// lockMany has many agents at work on rows of few locks, which succeed, fail at first, are released, or are completed by SQL's function.
func lockMany(t testing.TB, h Harness) {
	agents := crew(t, h)
	const rows = 120
	reqs := make([]store.EnqueueRequest, rows)
	for i := range reqs {
		reqs[i] = store.EnqueueRequest{Type: kind, Priority: i % 2, Lock: []string{"x", "y", "z", ""}[i%4]}
	}
	h.Insert(t, reqs...)
	watch := &lockWatch{running: map[string]task.ID{}}
	together(agents, func(ctx context.Context, r *rig) error {
		for !watch.over(rows) {
			if err := r.workOnLocks(ctx, watch); err != nil {
				return err
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%d of %d rows have ended: %w", watch.done, rows, ctx.Err())
			}
		}
		return nil
	})
	p, err := h.Promote(t.Context(), 1000)
	require.NoError(t, err)
	require.Zero(t, p.Rows)
}

// workOnLocks claims some rows, ends them, and has their locks passed on.
func (r *rig) workOnLocks(ctx context.Context, watch *lockWatch) error {
	r.claims++
	got, err := r.Claim(ctx, store.Claim{Session: r.session, Number: r.claims, Wants: []store.Want{want(kind, 3)}})
	if err != nil {
		return err
	}
	if err := watch.starts(got); err != nil {
		return err
	}
	for _, row := range got {
		first := row.Attempt == 1
		var end store.Settlement
		switch {
		case row.ID%3 == 0 && first:
			end = retry(row, 0)
		case row.ID%3 == 1 && row.Fence == 1:
			end = release(row)
		default:
			end = finish(row)
		}
		watch.ends(row, end.Next.State.Finished())
		if row.ID%5 == 0 && end.Next.State.Finished() {
			_, err = r.Complete(ctx, row.ID, row.Fence, nil)
		} else {
			_, err = r.Settle(ctx, r.session, []store.Settlement{end})
		}
		if err != nil {
			return err
		}
	}
	_, err = r.Promote(ctx, 10)
	return err
}
