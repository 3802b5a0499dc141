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

// steal takes everything away from the agent as another agent does that believes it dead, and releases it: it is due at once.
func (r *rig) steal() {
	r.t.Helper()
	ctx := r.t.Context()
	thief, err := r.store.Join(ctx, store.Agent{Name: "thief", Presence: time.Hour})
	require.NoError(r.t, err)
	require.NoError(r.t, r.store.Leave(ctx, r.session()))
	reaped, err := r.store.Sweep(ctx, thief, 1000, time.Minute, func() store.View { return store.View{Now: time.Now(), Calm: time.Hour} })
	require.NoError(r.t, err)
	require.NotEmpty(r.t, reaped)
	_, err = r.store.Present(ctx, store.Heartbeat{Session: r.session(), Agent: r.opts.Agent})
	require.NoError(r.t, err)
	for _, row := range reaped {
		answers, err := r.store.Settle(ctx, thief, []store.Settlement{{
			ID: row.ID, Fence: row.Fence, RanFence: row.RanFence, Phase: task.Run, Started: -1, Outcome: task.Outcome{Verdict: task.Lost},
			Next: task.Transition{State: task.StateRetryPending, EverStarted: true},
		}})
		require.NoError(r.t, err)
		require.Equal(r.t, []store.Answer{store.Applied}, answers)
	}
	require.NoError(r.t, r.store.Leave(ctx, thief))
}

// An agent claims a row again on which it still runs an attempt: it stops that one at once, not when it ends or its heartbeat
// finds out, and the new one begins when nothing is left of it.
func TestAnAttemptWaitsForAnEarlierOneOfItsRow(t *testing.T) {
	for name, stopping := range map[string]time.Duration{"stops at once": 0, "stops slowly": 500 * time.Millisecond, "stops too slowly": 12 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				var stopped []time.Time
				r := newRig(t, db, func(r *rig) {
					r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
						if l.Task().Fence > 1 {
							return task.Outcome{Verdict: task.Succeeded}
						}
						<-l.Context().Done()
						stopped = append(stopped, time.Now())
						after := time.NewTimer(stopping)
						<-after.C
						return l.Cause().Outcome()
					}
				})
				id := r.insert(1)[0]
				after(4100 * time.Millisecond)
				stolen := time.Now()
				r.steal()
				after(time.Minute)
				require.Len(t, stopped, 1)
				require.WithinDuration(t, stolen, stopped[0], 1500*time.Millisecond, "at the next claim, before a heartbeat could say so")
				starts := r.deeds.started()
				require.Len(t, starts, 2)
				require.False(t, starts[1].at.Before(stopped[0].Add(stopping)), "the new one waits for the end of the earlier one")
				require.Equal(t, 1, r.deeds.most[""])
				require.Equal(t, task.StateSucceeded, r.get(id).State)
				r.drain()
			})
		})
	}
}

// The earlier attempts are still in the queue: they are released, and nothing waits for ever.
func TestAnAttemptWaitsForNoneThatNeverStarted(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, func(r *rig) {
			r.opts.Declarations.Types = []*task.Type{declare("a", 1)}
			r.opts.Declarations.Workers = 1
			r.deeds.do = takes(10 * time.Millisecond)
		})
		ids := r.insert(500)
		after(2 * time.Second)
		require.Greater(t, r.engine.Held(), 2, "rows are claimed ahead")
		r.steal()
		after(time.Minute)
		for _, id := range ids {
			require.Equal(t, task.StateSucceeded, r.get(id).State)
		}
		require.Equal(t, 1, r.deeds.most[""])
		r.drain()
	})
}
