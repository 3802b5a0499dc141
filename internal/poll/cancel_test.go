package poll_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// batchOf makes a batch of n rows that are due.
func (r *rig) batchOf(n int) (id task.BatchID, ids []task.ID) {
	r.t.Helper()
	id, err := r.store.CreateBatch(r.t.Context(), store.BatchRequest{}, func(yield func(store.EnqueueRequest, error) bool) {
		for range n {
			if !yield(store.EnqueueRequest{Type: "a"}, nil) {
				return
			}
		}
	}, nil)
	require.NoError(r.t, err)
	list, err := r.store.List(r.t.Context(), store.TaskFilter{Batch: id, Limit: 1000})
	require.NoError(r.t, err)
	for i := range list {
		ids = append(ids, list[i].ID)
	}
	require.Len(r.t, ids, n)
	return id, ids
}

// startedSince is how many attempts began after that time.
func (r *rig) startedSince(at time.Time) (n int) {
	for _, s := range r.deeds.started() {
		if s.at.After(at) {
			n++
		}
	}
	return n
}

func TestNothingOfACancelledBatchStartsThatWasClaimedAhead(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, doing(takes(20*time.Millisecond)), alone)
		batch, ids := r.batchOf(400)
		after(505 * time.Millisecond)
		require.Greater(t, r.running(ids), 8, "some were claimed ahead")
		_, err := store.CancelBatch(t.Context(), batch, "alice")
		require.NoError(t, err)
		cancelled := time.Now()
		after(100 * time.Millisecond)
		require.Zero(t, r.startedSince(cancelled))
		require.Zero(t, r.running(ids), "what ran has ended, and what waited was released at once")
		released := 0
		for _, id := range ids {
			if info := r.get(id); info.State == task.StatePending && info.Fence > 0 {
				released++
				require.Zero(t, info.Attempt)
				require.False(t, info.EverStarted)
				require.Empty(t, info.History)
			}
		}
		require.Positive(t, released)
		for range 10 { // an agent carries the operation on
			_, err := store.Step(t.Context(), 500)
			require.NoError(t, err)
		}
		for _, id := range ids {
			require.Contains(t, []task.State{task.StateSucceeded, task.StateCancelled}, r.get(id).State)
		}
		r.drain()
	})
}

func TestACancelledTaskThatWasClaimedAheadIsSettledAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		do, slow := turning(2 * time.Millisecond)
		r := newRig(t, store, doing(do))
		ids := r.insert(2000)
		after(500 * time.Millisecond)
		slow.Store(int64(time.Minute))
		after(50 * time.Millisecond)
		begun := map[task.ID]bool{}
		for _, s := range r.deeds.started() {
			begun[s.id] = true
		}
		var waits []task.ID
		for _, id := range ids {
			if r.get(id).State == task.StateRunning && !begun[id] {
				waits = append(waits, id)
			}
		}
		require.NotEmpty(t, waits)
		_, err := store.Cancel(t.Context(), waits[0], "alice")
		require.NoError(t, err)
		after(30 * time.Millisecond)
		info := r.get(waits[0])
		require.Equal(t, task.StateCancelled, info.State)
		require.Equal(t, task.Cancelled, info.Outcome)
		require.Equal(t, "cancelled before it started, by alice", info.Error)
		require.Zero(t, info.Attempt)
		require.Empty(t, info.History)
		r.engine.Drain()
		r.cancel()
		<-r.over
	})
}

// The claim has committed before the cancellation, and the agent reads its reply after it knows of that.
func TestNothingOfACancelledBatchStartsThatIsReadLater(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		after(100 * time.Millisecond)
		r.wire.setHook(func(op string) fault {
			switch op {
			case "claim":
				return lostReply
			case "claimed":
				return lostCall
			}
			return none
		})
		batch, ids := r.batchOf(3)
		after(20 * time.Millisecond)
		require.Positive(t, r.running(ids))
		_, err := store.CancelBatch(t.Context(), batch, "alice")
		require.NoError(t, err)
		after(30 * time.Millisecond)
		r.wire.setHook(nil)
		after(5 * time.Second)
		require.Empty(t, r.deeds.started())
		require.Zero(t, r.running(ids))
		r.drain()
	})
}
