package poll_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// What another session leaves is found within a second where no notification comes: locks, turns, and ends that rows wait for.
func TestWhatOthersLeaveIsFound(t *testing.T) {
	for name, q := range map[string]store.EnqueueRequest{
		"lock":     {Type: "a", Lock: "x"},
		"sequence": {Type: "a", Sequence: "x"},
		"after":    {Type: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				first, err := db.Insert(t.Context(), q)
				require.NoError(t, err)
				other, err := db.Join(t.Context(), store.Agent{Name: "other", Presence: time.Hour})
				require.NoError(t, err)
				rows, err := db.Claim(t.Context(), store.Claim{Session: other, Number: 1, Wants: []store.Want{
					{Type: "a", Phase: task.Run, N: 1, Window: time.Hour},
				}})
				require.NoError(t, err)
				require.Len(t, rows, 1)
				if name == "after" {
					q.After = first
				}
				second, err := db.Insert(t.Context(), q)
				require.NoError(t, err)

				r := newRig(t, db, alone, func(r *rig) { r.wire.deaf, r.opts.Poll = true, time.Hour })
				after(10 * time.Second)
				r.all(second, task.StatePending, 0)
				_, err = db.Settle(t.Context(), other, []store.Settlement{{
					ID: rows[0].ID, Fence: rows[0].Fence, RanFence: rows[0].Fence, Phase: task.Run, Attempt: 1,
					Next: task.Transition{State: task.StateSucceeded}, Outcome: task.Outcome{Verdict: task.Succeeded},
				}})
				require.NoError(t, err)
				after(time.Second)
				r.all(second, task.StateSucceeded, 1)
				r.drain()
			})
		})
	}
}

// A session hears of an operation within a second, and again as long as it has not ended.
func TestOperationsAreFound(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var calls atomic.Int64
		r := newRig(t, db, func(r *rig) {
			r.wire.deaf = true
			r.opts.Changes = func() { calls.Add(1) }
		})
		after(10 * time.Second)
		require.Zero(t, calls.Load())
		app := db.Produce()
		id, err := app.CreateBatch(t.Context(), store.BatchRequest{})
		require.NoError(t, err)
		_, err = app.Insert(t.Context(), store.EnqueueRequest{Type: "a", Batch: id, In: time.Hour})
		require.NoError(t, err)
		require.NoError(t, app.Commit(t.Context()))
		after(10 * time.Second)
		require.Zero(t, calls.Load())
		_, err = db.CancelBatch(t.Context(), id, "alice")
		require.NoError(t, err)
		after(time.Second)
		require.Positive(t, calls.Load())
		after(7 * time.Second)
		require.InDelta(t, 12, calls.Load(), 3)
		r.drain()
	})
}

// A session without work asks little, and a look for what others have left is one call for all of it.
func TestAnIdleSessionAsksLittle(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db)
		after(time.Minute)
		before := map[string]int{}
		ops := []string{"look", "promote", "unblock", "claim", "next_due", "holders", "present", "settle", "exchange", "spill", "predecessors", "renew"}
		for _, op := range ops {
			before[op] = r.wire.count(op)
		}
		after(time.Minute)
		all := 0
		for _, op := range ops {
			n := r.wire.count(op) - before[op]
			t.Logf("%s: %d", op, n)
			all += n
			if op == "promote" || op == "unblock" {
				require.Zero(t, n, op)
			}
		}
		require.Less(t, all, 6*60)
		r.drain()
	})
}
