package poll_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// lively sets up a rig whose type "a" has a heartbeat, may answer 202, and may ping by any channel.
func lively(r *rig) {
	a := r.opts.Types[0]
	a.Policy.Heartbeat, a.Policy.MaxHeartbeat, a.Policy.Async = 5*time.Second, 10*time.Second, true
	r.opts.Remote, r.opts.Adopter = r.store, r.store
}

// accept takes a task and goes on without a connection.
func accept(*lease.Lease, *task.Type) task.Outcome { return task.Outcome{Accepted: true} }

func doing(do func(*lease.Lease, *task.Type) task.Outcome) func(*rig) {
	return func(r *rig) { r.deeds.do = do }
}

func TestAHungTaskComesBack(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, lively, doing(takes(time.Hour)))
		id := r.insert(1)[0]
		after(5*time.Second + 600*time.Millisecond)
		info := r.get(id)
		require.Equal(t, task.StateRetryPending, info.State)
		require.Equal(t, task.Stalled, info.Outcome)
		require.InDelta(t, 1, testutil.ToFloat64(r.opts.Metrics.Stalls.WithLabelValues("a")), 0)
		r.cancel()
		<-r.over
	})
}

func TestAnAcceptedTaskTakesNoSlotAndCompletes(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, lively, doing(accept))
		ids := r.insert(20) // five times as many as there are workers
		after(time.Second)
		require.Len(t, r.deeds.started(), 20)
		for range 3 {
			after(4 * time.Second)
			for _, id := range ids {
				reply, err := r.engine.Ping(t.Context(), id, 1, store.Ping{})
				require.NoError(t, err)
				require.True(t, reply.Counted)
			}
		}
		for _, id := range ids {
			require.Equal(t, task.StateRunning, r.get(id).State)
			for range 2 { // and again, because there was no answer
				a, err := r.engine.Complete(t.Context(), id, 1, json.RawMessage(`{"n":1}`))
				require.NoError(t, err)
				require.Contains(t, []store.Answer{store.Applied, store.Ended}, a)
			}
			require.Equal(t, task.StateSucceeded, r.get(id).State)
		}
		after(5 * time.Second)
		require.Zero(t, r.engine.Held())
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.LeasesLost))
		r.drain()
	})
}

func TestDrainLeavesAnAcceptedTaskAlone(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, lively, doing(accept))
		id := r.insert(1)[0]
		after(time.Second)
		r.drain()
		require.Equal(t, task.StateRunning, r.get(id).State)

		other := newRig(t, db, lively)
		for range 2 { // its agent is gone, and it goes on
			after(4 * time.Second)
			reply, err := other.engine.Ping(t.Context(), id, 1, store.Ping{})
			require.NoError(t, err)
			require.True(t, reply.Counted, "%+v", reply)
		}
		require.Equal(t, task.StateRunning, r.get(id).State)
		after(5*time.Second + other.opts.Types[0].Policy.Stop + time.Second)
		history := r.get(id).History
		require.NotEmpty(t, history, "it is reaped when its pings stop")
		require.Equal(t, task.Stalled, history[0].Outcome)
		other.drain()
	})
}

func TestAnAcceptedTaskRunsOutOfTime(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, lively, doing(accept))
		id := r.insert(1)[0]
		for range 10 {
			after(3 * time.Second)
			_, err := r.engine.Ping(t.Context(), id, 1, store.Ping{})
			require.NoError(t, err)
		}
		info := r.get(id)
		require.Equal(t, task.TimedOut, info.Outcome, "no ping reaches beyond the timeout")
		reply, err := r.engine.Ping(t.Context(), id, 1, store.Ping{})
		require.NoError(t, err)
		require.Equal(t, store.Lost, reply.Answer)
		r.drain()
	})
}

func TestFail(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, lively, doing(accept))
		ids := r.insert(2)
		after(time.Second)
		for range 2 {
			a, err := r.engine.Fail(t.Context(), ids[0], 1, "no paper", true)
			require.NoError(t, err)
			require.Contains(t, []store.Answer{store.Applied, store.Ended}, a)
			a, err = r.engine.Fail(t.Context(), ids[1], 1, "no such printer", false)
			require.NoError(t, err)
			require.Contains(t, []store.Answer{store.Applied, store.Ended}, a)
		}
		require.Equal(t, task.StateRetryPending, r.get(ids[0]).State)
		require.Equal(t, "no paper", r.get(ids[0]).Error)
		require.Equal(t, task.StateFailed, r.get(ids[1]).State)
		require.Contains(t, r.get(ids[1]).Error, "no such printer")
		a, err := r.engine.Fail(t.Context(), ids[1], 7, "forged", false)
		require.NoError(t, err)
		require.Equal(t, store.Lost, a)
		r.drain()
	})
}

func TestOnlyAcceptedTasksReportTheirFailure(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, lively, doing(takes(time.Hour)), func(r *rig) { r.opts.Types[0].Policy.Async = false })
		id := r.insert(1)[0]
		after(time.Second)
		_, err := r.engine.Fail(t.Context(), id, 1, "x", true)
		require.ErrorIs(t, err, poll.ErrNotAsync)
		require.Equal(t, task.StateRunning, r.get(id).State)
		r.cancel()
		<-r.over
	})
}

func TestATaskThatCompletesItselfIsLeftToItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		ended := make(chan task.Outcome, 1)
		r := newRig(t, db, lively, doing(func(l *lease.Lease, typ *task.Type) task.Outcome {
			o := takes(4*time.Second)(l, typ)
			ended <- o
			return o
		}))
		id := r.insert(1)[0]
		after(time.Second)
		a, err := db.Complete(t.Context(), id, 1, nil) // as by SQL: the agent does not know of it
		require.NoError(t, err)
		require.Equal(t, store.Applied, a)
		after(4 * time.Second)
		require.Equal(t, task.Succeeded, (<-ended).Verdict, "it was not stopped")
		require.Equal(t, task.StateSucceeded, r.get(id).State)
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.LeasesLost))
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.StaleSettlements))
		r.drain()
	})
}

func TestCancelStopsARunningTask(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, lively, doing(takes(time.Hour)))
		id := r.insert(1)[0]
		after(time.Second)
		what, err := db.Cancel(t.Context(), id, "me")
		require.NoError(t, err)
		require.Equal(t, store.Cancelling, what)
		after(100 * time.Millisecond) // the notification
		require.Equal(t, task.StateCancelled, r.get(id).State)
		r.drain()
	})
}

func TestACancellationBetweenDecisionAndSettlementCounts(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		fail := func(*lease.Lease, *task.Type) task.Outcome { return task.Outcome{Verdict: task.Failed, Error: "no"} }
		r := newRig(t, store, lively, doing(fail), func(r *rig) { r.wire.deaf = true })
		r.wire.setSlow("settle", 500*time.Millisecond)
		id := r.insert(1)[0]
		for len(r.deeds.started()) == 0 {
			after(10 * time.Millisecond)
		}
		after(100 * time.Millisecond) // it has failed, and the settlement is on its way
		require.Equal(t, task.StateRunning, r.get(id).State)
		_, err := store.Cancel(t.Context(), id, "me")
		require.NoError(t, err)
		after(2 * time.Second)
		require.Equal(t, task.StateCancelled, r.get(id).State, "it does not wait for another attempt")
		require.Len(t, r.deeds.started(), 1)
		r.drain()
	})
}

func TestTheLastCheckpointComesWithTheSettlement(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		seen := make(chan string, 10)
		r := newRig(t, db, lively, doing(func(l *lease.Lease, _ *task.Type) task.Outcome {
			seen <- string(l.Task().Checkpoint)
			if l.Task().Attempt > 1 {
				return task.Outcome{Verdict: task.Succeeded}
			}
			l.Ping(store.Ping{Checkpoint: json.RawMessage(`{"page":40}`), Progress: json.RawMessage(`0.4`)})
			return task.Outcome{Verdict: task.Failed, Error: "cut off"}
		}))
		r.wire.setHook(func(op string) fault {
			if op == "renew" {
				return lostCall
			}
			return none
		})
		id := r.insert(1)[0]
		after(5 * time.Second)
		require.Empty(t, <-seen)
		require.JSONEq(t, `{"page":40}`, <-seen)
		require.JSONEq(t, `0.4`, string(r.get(id).Progress))
		r.drain()
	})
}

func TestAStuckProcessKeepsItsSlot(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		gone := make(chan struct{})
		r := newRig(t, store, func(r *rig) { r.opts.Workers = 1 }, doing(func(l *lease.Lease, _ *task.Type) task.Outcome {
			if l.Task().ID == 1 {
				return task.Outcome{Verdict: task.Failed, EndUnknown: true, Stuck: gone}
			}
			return task.Outcome{Verdict: task.Succeeded}
		}))
		ids := r.insert(2)
		after(5 * time.Second)
		require.Len(t, r.deeds.started(), 1, "the next task gets no slot")
		require.Equal(t, task.StateRetryPending, r.get(ids[0]).State, "the outcome is settled all the same")
		require.InDelta(t, 1, testutil.ToFloat64(r.opts.Metrics.Quarantined), 0)
		close(gone)
		after(time.Second)
		require.Equal(t, task.StateSucceeded, r.get(ids[1]).State)
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.Quarantined))
		r.drain()
	})
}

// Each task of a request has a check of its own, whose process may be the one that does not die.
func TestAStuckCheckKeepsTheSlotOfItsRequest(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		gone := []chan struct{}{make(chan struct{}), make(chan struct{})}
		d := &target{}
		d.handle = func(ls []*lease.Lease, ended func(int, task.Outcome)) {
			for i := range ls {
				o := task.Outcome{Verdict: task.Succeeded}
				if len(d.requests()) == 1 {
					o = task.Outcome{Verdict: task.Failed, InCheck: true, EndUnknown: true, Stuck: gone[i]}
				}
				ended(i, o)
			}
		}
		r := newRig(t, db, batching(d, task.Batch{Max: 2, Wait: held}), func(r *rig) {
			r.opts.Workers, r.opts.Types[0].Check = 1, &task.Command{}
		})
		first := r.insert(2)
		after(5 * time.Second)
		require.Equal(t, []int{2}, d.sizes())
		more := r.insert(1)
		after(5 * time.Second)
		require.Len(t, d.requests(), 1, "the next request gets no slot")
		require.Equal(t, task.StateRetryPending, r.get(first[0]).State, "the outcome is settled all the same")
		require.InDelta(t, 1, testutil.ToFloat64(r.opts.Metrics.Quarantined), 0)
		close(gone[0])
		after(5 * time.Second)
		require.Len(t, d.requests(), 1, "the other is still there")
		close(gone[1])
		after(5 * time.Second)
		require.Equal(t, task.StateSucceeded, r.get(more[0]).State)
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.Quarantined))
		r.drain()
	})
}

// An executor that returns no verdict is a bug of ours. It costs the attempt, and not the agent.
func TestAnOutcomeWithoutAVerdictIsAFailure(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, doing(func(*lease.Lease, *task.Type) task.Outcome { return task.Outcome{Error: "none"} }))
		id := r.insert(1)[0]
		after(2 * time.Second)
		got := r.get(id)
		require.Equal(t, task.StateRetryPending, got.State)
		require.Contains(t, got.Error, "the agent lost its outcome")
		r.drain()
	})
}

func TestAStuckProcessDoesNotKeepTheAgent(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, doing(func(*lease.Lease, *task.Type) task.Outcome {
			return task.Outcome{Verdict: task.Failed, EndUnknown: true, Stuck: make(chan struct{})}
		}))
		r.insert(1)
		after(2 * time.Second)
		began := time.Now()
		r.drain()
		require.Less(t, time.Since(began), time.Second)
	})
}

// TestATaskMayReportItsFailureBeforeItsAnswer: what it answers then is neither counted nor settled, and the next attempt waits until it has.
func TestATaskMayReportItsFailureBeforeItsAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		var running, most atomic.Int32
		var r *rig
		r = newRig(t, db, lively, doing(func(l *lease.Lease, _ *task.Type) task.Outcome {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			if l.Task().Attempt > 1 {
				return task.Outcome{Verdict: task.Succeeded}
			}
			a, err := r.engine.Fail(t.Context(), l.Task().ID, l.Task().Fence, "no paper", true)
			require.NoError(t, err)
			require.Equal(t, store.Applied, a)
			after(4 * time.Second) // and tidies up
			return task.Outcome{Verdict: task.Failed, Error: "500"}
		}))
		id := r.insert(1)[0]
		after(20 * time.Second)
		require.Equal(t, task.StateSucceeded, r.get(id).State)
		require.Equal(t, int32(1), most.Load(), "two requests of it were open at once")
		history := r.get(id).History
		require.NotEmpty(t, history)
		require.Equal(t, "no paper", history[0].Error)
		for _, v := range []task.Verdict{task.Failed, task.Succeeded} {
			require.Equal(t, 1, int(testutil.ToFloat64(r.opts.Metrics.Attempts.WithLabelValues("a", "run", string(v)))), v)
		}
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.StaleSettlements))
		require.Zero(t, testutil.ToFloat64(r.opts.Metrics.LeasesLost))
		r.drain()
	})
}
