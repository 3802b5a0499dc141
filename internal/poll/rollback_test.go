package poll_test

import (
	"bytes"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// withRollback declares a rollback for type a, of at most two attempts that ping every second.
func withRollback(r *rig) { r.opts.Types[0] = rollbackType() }

func rollbackType() *task.Type {
	a := declare("a", 0)
	a.Rollback = &task.Webhook{}
	a.Policy.Rollback = &task.RollbackPolicy{
		Timeout: 10 * time.Second, Heartbeat: time.Second, Stop: task.StopLength(0),
		Retry: task.Retry{Limit: 1, Backoff: task.Constant, Min: 100 * time.Millisecond, Max: 100 * time.Millisecond, MaxDeferrals: 100},
	}
	return a
}

// byPhase runs attempts by what they are for.
func byPhase(run, rollBack func(*lease.Lease, *task.Type) task.Outcome) func(*rig) {
	return doing(func(l *lease.Lease, t *task.Type) task.Outcome {
		if l.Phase() == task.Rollback {
			return rollBack(l, t)
		}
		return run(l, t)
	})
}

func ends(v task.Verdict) func(*lease.Lease, *task.Type) task.Outcome {
	return func(*lease.Lease, *task.Type) task.Outcome { return task.Outcome{Verdict: v, Error: "because"} }
}

// attempts is how many attempts of type a ended so.
func (r *rig) attempts(phase task.Phase, v task.Verdict) float64 {
	return testutil.ToFloat64(r.opts.Metrics.Attempts.WithLabelValues("a", string(phase), string(v)))
}

func TestWhatFailsIsRolledBack(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, withRollback, byPhase(ends(task.Rejected), ends(task.Succeeded)))
		id := r.insert(1)[0]
		after(time.Second)
		r.all([]task.ID{id}, task.StateRolledBack, 2)
		starts := r.deeds.started()
		require.Greater(t, starts[1].fence, starts[0].fence)
		require.InDelta(t, 1, r.attempts(task.Run, task.Rejected), 0)
		require.InDelta(t, 1, r.attempts(task.Rollback, task.Succeeded), 0)
		r.drain()
	})
}

// The deadline is the task's: what is late is rolled back all the same.
func TestWhatIsPastItsDeadlineIsRolledBack(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, withRollback, func(r *rig) {
			r.opts.Types[0].Policy.Deadline = 2 * time.Second
		}, byPhase(takes(time.Hour), ends(task.Succeeded)))
		id := r.insert(1)
		after(10 * time.Second)
		r.all(id, task.StateRolledBack, 2)
		require.Equal(t, task.TimedOut, r.get(id[0]).Cause)
		r.drain()
	})
}

func TestATypeWithoutARollbackClaimsNone(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, withRollback, byPhase(ends(task.Rejected), takes(time.Hour)))
		id := r.insert(1)[0]
		after(10 * time.Millisecond)
		r.engine.Drain()
		<-r.over
		require.Equal(t, task.StateRollbackPending, r.get(id).State)
		other := newRig(t, store) // the rollback is declared no more
		after(time.Minute)
		require.Empty(t, other.deeds.started())
		require.Equal(t, task.StateRollbackPending, r.get(id).State, "it waits")
		other.drain()
	})
}

// Neither phase of a type starves behind a flood of the other.
func TestRunsAndRollbacksTakeTurns(t *testing.T) {
	for flood, rare := range map[task.Phase]task.State{task.Run: task.StateRolledBack, task.Rollback: task.StateSucceeded} {
		t.Run("a flood of "+string(flood), func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				rollbacks, runs := 1, 500
				if flood == task.Rollback {
					rollbacks, runs = runs, rollbacks
				}
				ids := pendingRollbacks(t, db, rollbacks)
				more, err := db.Insert(t.Context(), slices.Repeat([]store.EnqueueRequest{{Type: "a"}}, runs)...)
				require.NoError(t, err)
				if flood == task.Rollback {
					ids = more
				}
				r := newRig(t, db, withRollback, func(r *rig) { r.opts.Workers = 1 }, doing(takes(900*time.Millisecond)))
				after(5 * time.Second)
				require.Equal(t, rare, r.get(ids[0]).State)
				require.Less(t, len(r.deeds.started()), 10)
				r.engine.Drain()
				<-r.over
			})
		})
	}
}

// pendingRollbacks makes n rows of type a that wait to be rolled back. No agent is there yet that could run them.
func pendingRollbacks(t *testing.T, db *model.Store, n int) []task.ID {
	t.Helper()
	ctx, policy := t.Context(), rollbackType().Policy
	other, err := db.Join(ctx, store.Agent{Name: "other", Presence: time.Hour, Policies: map[task.PolicyHash]store.NamedPolicy{
		policy.Hash("a"): {Type: "a", Policy: policy},
	}})
	require.NoError(t, err)
	ids, err := db.Insert(ctx, slices.Repeat([]store.EnqueueRequest{{Type: "a"}}, n)...)
	require.NoError(t, err)
	got, err := db.Claim(ctx, store.Claim{Session: other, Number: 1, Wants: []store.Want{
		{Type: "a", Phase: task.Run, N: n, Window: time.Hour, Policy: policy.Hash("a")},
	}})
	require.NoError(t, err)
	require.Len(t, got, n)
	var ends []store.Settlement
	for _, row := range got {
		ends = append(ends, store.Settlement{
			ID: row.ID, Fence: row.Fence, RanFence: row.Fence, Phase: task.Run, Attempt: 1, CancelKnown: true,
			Outcome: task.Outcome{Verdict: task.Failed}, Next: task.Transition{State: task.StateRollbackPending, EverStarted: true},
		})
	}
	answers, err := db.Settle(ctx, other, ends)
	require.NoError(t, err)
	require.NotContains(t, answers, store.Lost)
	return ids
}

// The breakers of a type's phases are apart, and that of its check bars its runs.
func TestOnePhaseOutOfReach(t *testing.T) {
	for name, c := range map[string]struct {
		shut task.Phase
		want task.State // of what is to be run; rollbacks: rolled back unless they are shut
	}{
		"runs":      {task.Run, task.StatePending},
		"checks":    {task.Check, task.StatePending},
		"rollbacks": {task.Rollback, task.StateSucceeded},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *model.Store) {
				g := &phaseGate{shut: c.shut}
				rollBack := pendingRollbacks(t, store, 1)[0]
				r := newRig(t, store, withRollback, func(r *rig) {
					r.opts.Gate = g
					r.opts.Types[0].Check = &task.Webhook{}
				}, doing(succeed))
				run := r.insert(1)[0]
				after(time.Minute)
				require.Equal(t, c.want, r.get(run).State)
				want := task.StateRolledBack
				if c.shut == task.Rollback {
					want = task.StateRollbackPending
				}
				require.Equal(t, want, r.get(rollBack).State)
				require.Less(t, r.wire.count("claim"), 200, "the agent does not claim again and again")
				r.drain()
			})
		})
	}
}

// phaseGate is shut for one phase, and records its calls for the others.
type phaseGate struct {
	shut task.Phase

	mu       sync.Mutex
	received []string
}

func (g *phaseGate) Room(_ string, phase task.Phase) (int, time.Duration) {
	if phase == g.shut {
		return 0, time.Second
	}
	return -1, 0
}

func (g *phaseGate) Done(_ string, phase task.Phase, _ task.ID, o task.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.received = append(g.received, string(phase)+" "+string(o.Verdict))
}

func (g *phaseGate) Release(_ string, phase task.Phase, _ task.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.received = append(g.received, string(phase)+" released")
}

// What ends in its check is no word about the target of the run, and nothing that has to be rolled back.
func TestWhatEndsInItsCheck(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		g := &phaseGate{}
		r := newRig(t, store, withRollback, func(r *rig) {
			r.opts.Gate = g
			r.opts.Types[0].Check = &task.Webhook{}
		}, doing(func(*lease.Lease, *task.Type) task.Outcome {
			return task.Outcome{Verdict: task.Rejected, Error: "check: because", InCheck: true, NeverStarted: true}
		}))
		id := r.insert(1)
		after(time.Second)
		r.all(id, task.StateFailed, 1)
		require.Equal(t, []string{"run released"}, g.received)
		require.InDelta(t, 1, r.attempts(task.Check, task.Rejected), 0)
		require.InDelta(t, 0, r.attempts(task.Run, task.Rejected), 0)
		r.drain()
	})
}

func TestARollbackThatHangsIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		hangs := func(l *lease.Lease, typ *task.Type) task.Outcome {
			if l.Task().Attempt == 1 {
				return takes(time.Hour)(l, typ)
			}
			return task.Outcome{Verdict: task.Succeeded}
		}
		r := newRig(t, store, withRollback, byPhase(ends(task.Rejected), hangs))
		id := r.insert(1)
		after(5 * time.Second)
		r.all(id, task.StateRolledBack, 3)
		require.InDelta(t, 1, r.attempts(task.Rollback, task.Stalled), 0)
		starts := r.deeds.started()
		require.InDelta(t, 1.6, starts[2].at.Sub(starts[1].at).Seconds(), 0.6, "a heartbeat, and what it takes to ask the store")
		r.drain()
	})
}

func TestARollbackIsNotCancelled(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		slow := func(l *lease.Lease, typ *task.Type) task.Outcome {
			if o := takes(500*time.Millisecond)(l, typ); o.Verdict != task.Succeeded || l.Task().Attempt > 1 {
				return o
			}
			return task.Outcome{Verdict: task.Failed}
		}
		r := newRig(t, store, withRollback, byPhase(takes(time.Hour), slow))
		id := r.insert(1)[0]
		after(time.Second)
		for range 3 { // the run, and then its rollback
			_, err := store.Cancel(t.Context(), id, "me")
			require.NoError(t, err)
			after(100 * time.Millisecond)
		}
		require.Equal(t, task.StateRollbackRunning, r.get(id).State)
		settled := r.wire.count("settle")
		after(400 * time.Millisecond)
		require.Equal(t, settled+1, r.wire.count("settle"), "its failure is settled at once, in spite of the cancellation")
		after(time.Second)
		r.all([]task.ID{id}, task.StateRolledBack, 3)
		r.drain()
	})
}

func TestARollbackThatIsDrainedIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, withRollback, func(r *rig) { r.opts.Drain = 0 }, byPhase(ends(task.Rejected), takes(time.Hour)))
		id := r.insert(1)[0]
		after(100 * time.Millisecond)
		require.Equal(t, task.StateRollbackRunning, r.get(id).State)
		r.drain()
		require.Equal(t, task.StateRollbackPending, r.get(id).State)
		require.Zero(t, r.get(id).Attempt, "it costs no attempt")
	})
}

// lines is where an agent logs.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestARollbackThatFailsIsLoud(t *testing.T) {
	for name, rollBack := range map[string]func(*lease.Lease, *task.Type) task.Outcome{
		"rejected":        ends(task.Rejected),
		"out of attempts": ends(task.Failed),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store *model.Store) {
				var log lines
				r := newRig(t, store, withRollback, byPhase(ends(task.Rejected), rollBack), func(r *rig) {
					r.opts.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
				})
				failed := r.opts.Metrics.RollbacksFailed.WithLabelValues("a")
				require.InDelta(t, 0, testutil.ToFloat64(failed), 0)
				replies := 0
				r.wire.setHook(func(op string) fault { // every other reply is lost: it is counted once all the same
					if op == "settle" {
						replies++
						if replies%2 == 1 {
							return lostReply
						}
					}
					return none
				})
				id := r.insert(1)[0]
				after(10 * time.Second)
				require.Equal(t, task.StateRollbackFailed, r.get(id).State)
				require.InDelta(t, 1, testutil.ToFloat64(failed), 0)
				require.Regexp(t, `^time=\S+ level=ERROR msg="the rollback of a task has failed[^\n]* task=1 type=a fence=\d+ attempt=\d why="rollback attempt [^\n]*because"\n$`, log.String())
				r.drain()
			})
		})
	}
}

// A rollback whose agent is dead is logged as loudly, by the agent that reaps it.
func TestARollbackThatIsLostForTheLastTimeIsLoud(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var log lines
		once := rollbackType().Policy
		once.Rollback.Retry.Limit = 0
		id := pendingRollbacks(t, db, 1)[0]
		dead, err := db.Join(t.Context(), store.Agent{Name: "dead", Presence: time.Hour, Policies: map[task.PolicyHash]store.NamedPolicy{
			once.Hash("a"): {Type: "a", Policy: once},
		}})
		require.NoError(t, err)
		got, err := db.Claim(t.Context(), store.Claim{Session: dead, Number: 1, Wants: []store.Want{
			{Type: "a", Phase: task.Rollback, N: 1, Window: time.Hour, Policy: once.Hash("a")},
		}})
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.NoError(t, db.Leave(t.Context(), dead))
		r := newRig(t, db, withRollback, doing(succeed), func(r *rig) {
			r.opts.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		})
		after(10 * time.Second)
		require.Equal(t, task.StateRollbackFailed, r.get(id).State)
		require.InDelta(t, 1, testutil.ToFloat64(r.opts.Metrics.RollbacksFailed.WithLabelValues("a")), 0)
		require.Contains(t, log.String(), "its agent is gone")
		r.drain()
	})
}

// Equal policies are not one: each type is known to have a rollback by its own name, which is what a task goes by whose own
// attempt knew of none.
func TestOfTypesWithEqualPoliciesEachCanBeRolledBack(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		both := func(declared func() *task.Type) func(*rig) {
			return func(r *rig) {
				r.opts.Types = []*task.Type{declared(), declared()}
				r.opts.Types[1].Name = "b"
			}
		}
		r := newRig(t, db, both(func() *task.Type { return declare("a", 0) }), doing(succeed))
		ids, err := db.Insert(t.Context(), store.EnqueueRequest{Type: "a"}, store.EnqueueRequest{Type: "b"})
		require.NoError(t, err)
		after(time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()

		r = newRig(t, db, both(rollbackType), doing(succeed))
		after(time.Second)
		for _, id := range ids {
			became, err := db.Rollback(t.Context(), id, "alice")
			require.NoError(t, err)
			require.Equal(t, store.Became(task.StateRollbackPending), became)
		}
		after(time.Second)
		r.all(ids, task.StateRolledBack, 1)
		r.drain()
	})
}
