package poll_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// dead counts the rows that were inserted for tasks that have failed.
func (r *rig) dead() int {
	r.t.Helper()
	list, err := r.store.List(r.t.Context(), store.TaskFilter{Type: "dead"})
	require.NoError(r.t, err)
	return len(list)
}

// Whatever ends a row as failed, and however the reply is lost, one row of on_failed comes of it.
func TestEachFailureHasOneRowOfOnFailed(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, func(r *rig) {
			r.opts.Types[0].Policy.OnFailed = "dead"
			r.opts.Types[0].Policy.Retry.Limit = 1
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				if l.Task().ID == 1 {
					return task.Outcome{Verdict: task.Succeeded}
				}
				return task.Outcome{Verdict: task.Failed, Error: "it broke"}
			}
		})
		after(4 * time.Second)
		lost := 0
		r.wire.setHook(func(op string) fault {
			if op != "settle" {
				return none
			}
			if lost++; lost%2 == 1 {
				return lostReply
			}
			return none
		})
		ids := r.insert(5)
		after(5 * time.Minute)
		r.wire.setHook(nil)
		r.all(ids[:1], task.StateSucceeded, 1)
		for _, id := range ids[1:] {
			require.Equal(t, task.StateFailed, r.get(id).State)
		}
		require.Equal(t, 4, r.dead())
		require.Positive(t, lost)

		gone := r.orphan() // of a type that this agent does not declare: its policy is in the store
		after(10 * time.Second)
		require.Equal(t, task.StateRetryPending, r.get(gone).State)
		require.Equal(t, 4, r.dead(), "it has an attempt left")
		r.drain()
	})
}

// The reaper goes by the policy that the row was claimed under.
func TestReapedForTheLastTimeHasARowOfOnFailed(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, func(r *rig) {
			r.opts.Types[0].Policy.OnFailed = "dead"
			r.opts.Types[0].Policy.Retry.Limit = 0
		})
		after(4 * time.Second)
		gone := r.orphan()
		after(10 * time.Second)
		require.Equal(t, task.StateFailed, r.get(gone).State)
		require.Equal(t, 1, r.dead())
		r.drain()
	})
}
