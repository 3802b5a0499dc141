package poll_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// grouped hands the rows of type b out as those of a batch.
type grouped struct{ *wire }

func (g grouped) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	tasks, err := g.wire.Claim(ctx, c)
	for i := range tasks {
		if tasks[i].Type == "b" {
			tasks[i].Batch = 17
		}
	}
	return tasks, err
}

func TestTheBatchLoopIsNotified(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		var calls atomic.Int64
		r := newRig(t, store, doing(takes(time.Second)), func(r *rig) {
			r.opts.Store, r.opts.Batch = grouped{r.wire}, func() { calls.Add(1) }
		})
		after(100 * time.Millisecond)
		calls.Store(0) // it is called once when listening has begun
		r.insert(3)
		after(1500 * time.Millisecond)
		require.Zero(t, calls.Load(), "rows of no batch")
		ids := r.insert(2, of("b"))
		after(500 * time.Millisecond)
		require.Zero(t, calls.Load(), "nothing has ended yet")
		after(time.Second)
		r.all(ids, task.StateSucceeded, 1)
		require.Positive(t, calls.Load())
		require.LessOrEqual(t, calls.Load(), int64(2), "once for a settlement")
		calls.Store(0)

		r.insert(1)
		after(100 * time.Millisecond)
		running := r.insert(1)[0]
		after(100 * time.Millisecond)
		_, err := store.Cancel(t.Context(), running, "me")
		require.NoError(t, err)
		after(10 * time.Millisecond)
		require.Equal(t, int64(1), calls.Load(), "an operation was requested")
		r.drain()
	})
}
