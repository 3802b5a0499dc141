package poll_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// paused pauses a type, or resumes it.
func (r *rig) paused(db *model.Store, typ string, is bool) {
	r.t.Helper()
	var changed bool
	var err error
	if is {
		changed, err = db.PauseType(r.t.Context(), typ, "the bank is down", "alice")
	} else {
		changed, err = db.ResumeType(r.t.Context(), typ, "alice")
	}
	require.NoError(r.t, err)
	require.True(r.t, changed)
}

// Within a second nothing more of a paused type starts, what runs goes on, other types run, and the agent is well. Once it is resumed it
// takes less than a second until tasks start.
func TestNothingOfAPausedTypeStarts(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, doing(takes(10*time.Second)))
		after(time.Second)
		running := r.insert(1)
		after(time.Second)
		require.Equal(t, 1, r.deeds.now("a"))
		r.paused(db, "a", true)
		after(time.Second)
		waiting := r.insert(20)
		other := r.insert(1, func(q *store.EnqueueRequest) { q.Type = "b" })
		for range 60 {
			after(time.Second)
			require.NoError(t, r.engine.Health())
		}
		r.all(running, task.StateSucceeded, 1)
		r.all(waiting, task.StatePending, 0)
		r.all(other, task.StateSucceeded, 1)
		r.paused(db, "a", false)
		after(time.Second)
		require.Positive(t, r.deeds.now("a"))
		after(5 * time.Minute)
		r.all(waiting, task.StateSucceeded, 1)
		r.drain()
	})
}

// What waits in the agent for a slot goes back, so that it does not start; an agent that starts knows of the pause before it claims; and
// while the store cannot say what is paused, what it said last holds.
func TestAPauseHoldsWhatIsClaimed(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, doing(takes(400*time.Millisecond)))
		r.insert(500)
		after(10 * time.Second)
		r.paused(db, "a", true)
		after(2 * time.Second)
		require.Zero(t, r.deeds.now("a"))
		ran := len(r.deeds.started())
		after(time.Minute)
		require.Len(t, r.deeds.started(), ran)
		r.drain()
		again := newRig(t, db, alone, doing(takes(400*time.Millisecond)))
		after(time.Minute)
		require.Empty(t, again.deeds.started())
		again.wire.setHook(func(op string) fault {
			if op == "look" {
				return lostCall
			}
			return none
		})
		again.paused(db, "a", false)
		after(10 * time.Second)
		require.Empty(t, again.deeds.started())
		again.wire.setHook(func(string) fault { return none })
		after(5 * time.Minute)
		require.Equal(t, 500, ran+len(again.deeds.started()))
		again.drain()
	})
}

// A pause of an old name of a type is one of the type.
func TestAPauseOfAnAlias(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, func(r *rig) { r.opts.Types[0].Aliases = []string{"old"} })
		r.paused(db, "old", true)
		after(time.Second)
		ids := r.insert(3)
		after(10 * time.Second)
		r.all(ids, task.StatePending, 0)
		r.paused(db, "old", false)
		after(10 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}
