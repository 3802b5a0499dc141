package poll_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

const restWithin = 5 * time.Second

// left asks what keeps the engine from being at rest.
func (r *rig) left() string {
	r.t.Helper()
	left, err := r.engine.AtRest(r.t.Context(), restWithin, func(context.Context) (string, error) { return "", nil })
	require.NoError(r.t, err)
	return left
}

// leftInQuiet asks once the claim that a notification has woken is over: until then, that claim is what keeps the engine from rest.
func (r *rig) leftInQuiet() string {
	r.t.Helper()
	synctest.Wait()
	return r.left()
}

// rests waits until the engine is at rest, and returns for how long it was not. It asks every millisecond, so that it meets every moment.
func (r *rig) rests(most time.Duration) time.Duration {
	r.t.Helper()
	for began := time.Now(); ; {
		left := r.left()
		if left == "" {
			return time.Since(began)
		}
		require.Less(r.t, time.Since(began), most, left)
		wait(r.t.Context(), time.Millisecond)
	}
}

func TestAtRestWaitsForWhatFollows(t *testing.T) {
	for _, slow := range []string{"", "claim", "exchange", "settle", "unblock", "promote", "next_due", "spill", "holders"} {
		t.Run(slow, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				r := newRig(t, db)
				defer r.drain()
				r.deeds.do = takes(7 * time.Millisecond)
				r.wire.setSlow(slow, 30*time.Millisecond)
				r.rests(2 * time.Second)
				for range 20 {
					ids := r.insert(2, func(q *store.EnqueueRequest) { q.Lock = "l" })
					ids = append(ids, r.insert(2, func(q *store.EnqueueRequest) { q.Sequence = "s" })...)
					ids = append(ids, r.insert(1, func(q *store.EnqueueRequest) { q.After = ids[:3] })...)
					ids = append(ids, r.insert(1, of("b"), func(q *store.EnqueueRequest) { q.After = ids[4:] })...)
					r.rests(5 * time.Second)
					r.all(ids, task.StateSucceeded, 1)
				}
			})
		})
	}
}

func TestAtRestWaitsForAClaimWithoutAReply(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, func(r *rig) { r.wire.deaf = true })
		defer r.drain()
		after(time.Second)
		r.wire.setHook(func(op string) fault {
			if op == "claim" {
				return lostReply
			}
			if op == "claimed" {
				return lostCall
			}
			return none
		})
		ids := r.insert(1)
		after(2 * time.Second)
		require.NotEmpty(t, r.left())
		r.wire.setHook(nil)
		r.rests(10 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
	})
}

func TestAtRestCountsWhatIsDueSoon(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db)
		defer r.drain()
		after(time.Second)
		far := r.insert(1, in(restWithin+time.Second))
		other := r.insert(1, of("c"))
		require.Empty(t, r.leftInQuiet(), "neither what is due later nor what the agent does not declare")
		soon := r.insert(1, in(restWithin-100*time.Millisecond))
		require.Equal(t, "a task is due in 4.9s", r.leftInQuiet())
		require.Greater(t, r.rests(10*time.Second), time.Second)
		r.all(soon, task.StateSucceeded, 1)
		r.all(far, task.StateSucceeded, 1) // it was due within five seconds of that, and so waited for
		r.all(other, task.StatePending, 0)

		_, err := db.PauseType(t.Context(), "a", "test", "")
		require.NoError(t, err)
		after(time.Second)
		paused := r.insert(1)
		require.Empty(t, r.leftInQuiet(), "a paused type does not count")
		r.all(paused, task.StatePending, 0)

		r.deeds.do = func(*lease.Lease, *task.Type) task.Outcome { return task.Outcome{Verdict: task.Failed} }
		failing := r.insert(1, of("b"))
		require.Greater(t, r.rests(20*time.Second), 2*time.Second)
		r.all(failing, task.StateFailed, 3)
	})
}

func TestAtRestWaitsForTheRowsOfTheDead(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		gone, err := db.Join(t.Context(), store.Agent{Name: "gone", Workers: 1, Types: []string{"a"}, Presence: 15 * time.Second})
		require.NoError(t, err)
		r := newRig(t, db, func(r *rig) { r.opts.Types = r.opts.Types[1:] })
		defer r.drain()
		after(time.Second)
		ids := r.insert(1)
		got, err := db.Claim(t.Context(), store.Claim{Session: gone, Number: 1, Wants: []store.Want{{Type: "a", Phase: task.Run, N: 1, Window: time.Hour}}})
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Empty(t, r.leftInQuiet(), "another agent has it")
		after(15 * time.Second)
		require.Equal(t, "tasks whose agent is gone are to be reaped", r.leftInQuiet())
		r.rests(30 * time.Second)
		require.NotEqual(t, task.StateRunning, r.get(ids[0]).State)
	})
}

func TestAtRestLooksAgainAfterTasksHaveRunMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db)
		defer r.drain()
		after(time.Second)
		left, err := r.engine.AtRest(t.Context(), restWithin, func(context.Context) (string, error) {
			r.insert(1) //nolint:contextcheck // it has the test's
			after(time.Second)
			return "", nil
		})
		require.NoError(t, err)
		require.Equal(t, "tasks have run", left, "what follows from these is not known")
		require.Empty(t, r.left())
	})
}
