package poll_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

func TestRunsWhatIsDueOnce(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		a, b := r.insert(500), r.insert(50, of("b"))
		after(10 * time.Second)
		r.all(a, task.StateSucceeded, 1)
		r.all(b, task.StateSucceeded, 1)
		r.drain()
	})
}

func TestSlotsAreNeverExceeded(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.deeds.do = takes(100 * time.Millisecond) })
		a, b := r.insert(40), r.insert(10, of("b"))
		after(30 * time.Second)
		r.all(a, task.StateSucceeded, 1)
		r.all(b, task.StateSucceeded, 1)
		require.Equal(t, 4, r.deeds.most[""], "workers of the agent, all of them used")
		require.Equal(t, 2, r.deeds.most["b"], "workers of the type")
		r.drain()
	})
}

func TestTypesTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			r.opts.Types = []*task.Type{declare("a", 0), declare("b", 0)}
			r.opts.Workers = 2
			r.deeds.do = takes(time.Second)
		})
		a, b := r.insert(1000), r.insert(5, of("b"))
		after(15 * time.Second)
		r.all(b, task.StateSucceeded, 1)
		require.Equal(t, task.StatePending, r.get(a[len(a)-1]).State)
		r.engine.Drain()
		<-r.over
	})
}

func TestEachWakeUpWorksAlone(t *testing.T) {
	never := 24 * time.Hour
	cases := map[string]struct {
		poll  time.Duration
		deaf  bool
		in    time.Duration // when the row is due
		early time.Duration // the row must have been started so long after it was inserted
	}{
		"notification":            {poll: never, early: 0},
		"poll":                    {poll: time.Second, deaf: true, early: 1200 * time.Millisecond},
		"timer, known at start":   {poll: 10 * time.Second, deaf: true, in: 5 * time.Second, early: 5 * time.Second},
		"notified of a later row": {poll: never, in: 3 * time.Second, early: 3 * time.Second},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				change := func(r *rig) { r.opts.Poll, r.wire.deaf = c.poll, c.deaf }
				known := c.in > 0 && c.deaf
				var ids []task.ID
				if known {
					var err error
					ids, err = db.Insert(t.Context(), store.EnqueueRequest{Type: "a", In: c.in})
					require.NoError(t, err)
				}
				inserted := time.Now()
				r := newRig(t, db, change)
				synctest.Wait()
				if !known {
					after(time.Minute)
					inserted = time.Now()
					ids = r.insert(1, in(c.in))
				}
				after(c.early + 5*time.Millisecond)
				r.all(ids, task.StateSucceeded, 1)
				require.GreaterOrEqual(t, r.deeds.started()[0].at.Sub(inserted), c.in)
				r.drain()
			})
		})
	}
}

func TestIdleAgentAsksLittle(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		after(time.Minute)
		before := r.wire.count("claim") + r.wire.count("next_due") + r.wire.count("idle")
		after(time.Minute)
		spent := r.wire.count("claim") + r.wire.count("next_due") + r.wire.count("idle") - before
		require.LessOrEqual(t, spent, 2*80, "one claim and one question a poll")
		require.GreaterOrEqual(t, spent, 2*45)
		r.drain()
	})
}

func TestLostClaimReplyIsReadBack(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			failed := false
			r.wire.hook = func(op string) fault {
				if op == "claim" && !failed {
					failed = true
					return lostReply
				}
				return none
			}
		})
		ids := r.insert(3)
		after(5 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		for _, id := range ids {
			require.Equal(t, 1, r.get(id).Attempt)
		}
		r.drain()
	})
}

func TestLateClaimIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		// The claim's reply is lost, and when it is read back it has not committed yet.
		r := newRig(t, store, func(r *rig) {
			n := 0
			r.wire.hook = func(op string) fault {
				if op == "claim" && n == 0 {
					n++
					return lostCall
				}
				return none
			}
		})
		after(time.Second)
		require.Equal(t, 1, r.wire.count("claimed"), "the first claim was read back, and had nothing")
		session := r.session()
		late := r.claimLate(session, 1)
		after(5 * time.Second)
		r.all(late, task.StateSucceeded, 1)
		info := r.get(late[0])
		require.Equal(t, 1, info.Attempt, "the late claim cost no attempt")
		require.Equal(t, task.Fence(4), info.Fence, "claimed, released, claimed, settled")
		r.drain()
	})
}

func TestLostSettlementReplyIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		n := 0
		r := newRig(t, store, func(r *rig) {
			r.wire.hook = func(op string) fault {
				if op == "settle" && n < 3 {
					n++
					return lostReply
				}
				return none
			}
		})
		ids := r.insert(10)
		after(5 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

func TestBusyRowIsSettledLater(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		var release func()
		r := newRig(t, store, func(r *rig) {
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				if release == nil {
					release = store.Keep(l.Task().ID)
				}
				return task.Outcome{Verdict: task.Succeeded}
			}
		})
		ids := r.insert(1)
		after(3 * time.Second)
		require.Equal(t, task.StateRunning, r.get(ids[0]).State)
		others := r.insert(20)
		after(time.Second)
		r.all(others, task.StateSucceeded, 1)
		release()
		after(time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

func TestRetryIsDueInTimeWithoutAnyOtherWakeUp(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, func(r *rig) {
			r.opts.Poll, r.wire.deaf = 24*time.Hour, true
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				if l.Task().Attempt == 1 {
					return task.Outcome{Verdict: task.Failed}
				}
				return task.Outcome{Verdict: task.Succeeded}
			}
			_, err := db.Insert(t.Context(), store.EnqueueRequest{Type: "a", In: 10 * time.Second})
			require.NoError(t, err)
		})
		after(13 * time.Second)
		r.all([]task.ID{1}, task.StateSucceeded, 2)
		r.drain()
	})
}

func TestSettlementsFailAndClaimsStopAtTheCap(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.opts.Workers, r.opts.Poll = 100, 24*time.Hour })
		r.wire.setHook(func(op string) fault {
			if op == "settle" {
				return lostCall
			}
			return none
		})
		ids := r.insert(sized(11_000, 15_000))
		after(10 * time.Second)
		started := len(r.deeds.started())
		require.GreaterOrEqual(t, started, 9_000)
		require.LessOrEqual(t, started, 10_000, "claims stop when too many outcomes wait")
		r.wire.setHook(nil)
		after(10 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

func TestPanicIsTheAttemptsFailure(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) {
			r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome {
				if l.Task().Attempt == 1 {
					panic("boom")
				}
				return task.Outcome{Verdict: task.Succeeded}
			}
		})
		ids := r.insert(1)
		after(time.Minute) // its end is unknown: not before the lease's
		r.all(ids, task.StateSucceeded, 2)
		r.drain()
	})
}

func TestDeadlineThatPassedIsNotStarted(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		ids, err := db.Insert(t.Context(), store.EnqueueRequest{Type: "a"})
		require.NoError(t, err)
		after(2 * time.Minute)
		r := newRig(t, db, func(r *rig) { r.opts.Types[0].Policy.Deadline = time.Minute })
		after(time.Second)
		r.all(ids, task.StateFailed, 0)
		require.Contains(t, r.get(ids[0]).Error, "deadline")
		r.drain()
	})
}
