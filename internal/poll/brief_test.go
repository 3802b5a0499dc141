package poll_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// stopsAgents runs agents, one after another, that begin to drain when the row's attempt has run for so long. It returns
// how many there were until the row ended, at most most.
func stopsAgents(t *testing.T, store *model.Store, most int, after time.Duration) (*rig, task.ID, int) {
	t.Helper()
	var id task.ID
	for n := 1; ; n++ {
		begun := make(chan struct{}, 1)
		r := newRig(t, store, func(r *rig) {
			r.opts.Drain = 3 * time.Second
			r.opts.Types[0].Policy.Retry.MaxDeferrals = 4
			r.opts.Types[0].Policy.Retry.Limit = 1
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				begun <- struct{}{}
				<-l.Context().Done()
				return l.Cause().Outcome()
			}
		})
		if id == 0 {
			id = r.insert(1)[0]
		}
		<-begun
		<-time.After(after)
		r.drain()
		if n == most || r.get(id).State.Finished() {
			return r, id, n
		}
	}
}

// A task that stops each agent that runs it runs out of attempts, though each of them was drained.
func TestATaskThatStopsItsAgentEnds(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r, id, agents := stopsAgents(t, store, 50, 100*time.Millisecond)
		info := r.get(id)
		require.Equal(t, task.StateFailed, info.State)
		require.Equal(t, 2, info.Attempt)
		require.Equal(t, 4+2, agents, "released as often as it may be deferred, and then out of attempts")
		require.Contains(t, info.Error, "attempt 2 of 2 was released (6 times in a row, and only 4 are free)")
		require.Contains(t, info.Error, task.BriefNote)
		require.Len(t, info.History, agents)
	})
}

// One that had run for a while when its agents were stopped had no part in that, however often.
func TestATaskThatIsDrainedAgainAndAgainDoesNotEnd(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r, id, _ := stopsAgents(t, store, 20, 2*time.Second)
		info := r.get(id)
		require.Equal(t, task.StatePending, info.State)
		require.Zero(t, info.Attempt)
	})
}
