package poll_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// behind has a row wait for others.
func behind(ids ...task.ID) func(*store.EnqueueRequest) {
	return func(r *store.EnqueueRequest) { r.After = ids }
}

// Rows run one after another, without a poll in between, and nothing is unhealthy about those that wait.
func TestRowsRunAfterOthers(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, func(r *rig) { r.deeds.do = takes(10 * time.Second) })
		after(time.Second)
		first := r.insert(1)
		second := r.insert(2, behind(first...))
		third := r.insert(1, behind(second...))
		after(5 * time.Second)
		require.Equal(t, 1, r.deeds.now("a"))
		require.NoError(t, r.engine.Health())
		after(26 * time.Second)
		r.all(first, task.StateSucceeded, 1)
		r.all(second, task.StateSucceeded, 1)
		r.all(third, task.StateSucceeded, 1)
		r.drain()
	})
}

// A step that fails is repeated.
func TestStepsOfRowsThatWaitGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, doing(takes(2*time.Second)))
		after(time.Second)
		failures := 3
		r.wire.setHook(func(op string) fault {
			switch {
			case op == "look" && failures < 3: // which would have it repeated, too
				return lostCall
			case op == "unblock" && failures > 0:
				failures--
				return []fault{lostReply, lostCall, lostCall}[failures]
			}
			return none
		})
		first := r.insert(1)
		second := r.insert(4, behind(first...))
		after(10 * time.Second)
		r.all(second, task.StateSucceeded, 1)
		require.Zero(t, failures)
		r.drain()
	})
}

// What a run gets to know is read before it starts: again after an error, and if it cannot be read in time, the row is released.
func TestRunsKnowWhatTheyHaveWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var known []*task.After
		r := newRig(t, db, alone, func(r *rig) {
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				known = append(known, l.After())
				return task.Outcome{Verdict: task.Succeeded, Result: json.RawMessage(`{"n":1}`)}
			}
		})
		reads, failures := 0, 30 // which is more than fit into one start
		r.wire.setHook(func(op string) fault {
			if op != "predecessors" {
				return none
			}
			reads++
			if reads > failures {
				return none
			}
			return lostCall
		})
		first := r.insert(1)
		second := r.insert(1, behind(first...))
		after(time.Minute)
		r.all(first, task.StateSucceeded, 1)
		r.all(second, task.StateSucceeded, 1)
		require.Equal(t, failures+1, reads)
		require.Nil(t, known[0])
		require.Equal(t, &task.After{Tasks: []task.Predecessor{
			{ID: first[0], Type: "a", State: task.StateSucceeded, Result: json.RawMessage(`{"n":1}`)},
		}}, known[1])
		require.Len(t, known, 2, "it has not started without")
		r.drain()
	})
}
