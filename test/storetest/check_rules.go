package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Some rules are written in Go and again in SQL, for the functions that applications call. These checks compare the two over
// all cases: what a store does with what the function in Go returns.
func ruleChecks() []Check {
	return []Check{
		{"the cause of a rollback (task.Cause): an attempt ends the run", ruleCauseSettled},
		{"the cause of a rollback (task.Cause): requested of a finished row", ruleCauseFinished},
		{"what is rolled back when it is cancelled (task.RollsBack)", ruleRollsBack},
		{"what a completion leaves (Settlement.InHistory, NewResult)", ruleCompleted},
		{"what a retry or a rollback finds in a batch (batch.HasFailed, CanRollBack)", ruleBatchFinds},
		{"when a row is due that waits again (Settlement.KeepsDue, Transition.AfterLease)", ruleDue},
		{"until when the next ping is due, and the attempt over (Policy.PingWindow, AttemptLength)", rulePingWindow},
	}
}

func ruleCauseSettled(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, v := range task.Verdicts() {
		for _, asked := range []bool{false, true} {
			row := r.heldUnder(beating())
			if asked {
				require.Equal(t, store.Cancelling, r.cancel(row.ID, ""))
			}
			r.settled(ended(row, v, task.StateRollbackPending))
			back := r.claimOne(kind, task.Rollback)
			require.Equal(t, task.Cause(v, asked), back.Cause, "%s, cancellation requested: %v", v, asked)
			r.settled(ended(back, task.Succeeded, task.StateRolledBack))
		}
	}
}

func ruleCauseFinished(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for i, v := range task.Verdicts() {
		for _, s := range []task.State{task.StateSucceeded, task.StateFailed, task.StateCancelled} {
			row := r.heldUnder(beating())
			r.settled(ended(row, v, s))
			want := task.Cause(v, s == task.StateCancelled)
			way := []string{"Go", "SQL"}[i%2]
			// A rollback that has failed is repeated for the same cause.
			for _, last := range []task.State{task.StateRollbackFailed, task.StateRolledBack} {
				r.did(became(task.StateRollbackPending), r.rollbacks()[way], row.ID, "")
				back := r.claimOne(kind, task.Rollback)
				require.Equal(t, want, back.Cause, "%s after %s by %s, then %s", s, v, way, last)
				r.settled(ended(back, verdictFor(last), last))
			}
		}
	}
}

func ruleRollsBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	n := 0
	policy := func(canRollBack bool) *task.Policy { // of one type alone
		p := oneWayPolicy()
		n++
		p.Timeout += time.Duration(n) * time.Second
		if canRollBack {
			p.Rollback = beating().Rollback
		}
		return p
	}
	for _, own := range []bool{false, true} {
		for _, other := range []bool{false, true} {
			typ := fmt.Sprintf("own %v, other %v", own, other)
			p := policy(own)
			r.declare(typ, p)
			r.declare(typ, policy(other))
			for _, everStarted := range []bool{false, true} {
				waiting := func() task.ID {
					id := r.Insert(t, store.EnqueueRequest{Type: typ})[0]
					rows := r.claim(store.Want{Type: typ, Phase: task.Run, N: 2, Window: window, Policy: p.Hash("a")})
					require.Len(t, rows, 1)
					e := ended(rows[0], task.Failed, task.StateRetryPending)
					e.Next.EverStarted, e.Next.Delay = everStarted, farOff
					r.settled(e)
					return id
				}
				becomes := func(canRollBack bool) store.Became {
					if task.RollsBack(everStarted, canRollBack) {
						return became(task.StateRollbackPending)
					}
					return became(task.StateCancelled)
				}
				note := func(id task.ID, verb string, do operation, want store.Became) {
					r.audited(func() { r.did(want, do, id, "") }, Audited{Verb: verb, Task: id, Answer: string(want)})
					require.Equal(t, want, became(r.state(id)), "%s of %s", verb, typ)
				}
				// A cancellation goes by the policy that the row's last attempt started with, a rollback by all of its type.
				for _, do := range []operation{r.h.Cancel, r.sql.Cancel} {
					note(waiting(), "cancel", do, becomes(own))
				}
				for way, do := range r.rollbacks() {
					id := waiting()
					if own || other {
						note(id, "rollback", do, becomes(true))
						continue
					}
					_, err := do(r.ctx, id, "")
					refusal(t, way, err, "rollback")
					require.Equal(t, task.StateRetryPending, r.state(id))
				}
			}
		}
	}
}

func ruleCompleted(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, phase := range []task.Phase{task.Run, task.Rollback} {
		for _, attempt := range []int{1, 2} {
			for _, earlier := range []json.RawMessage{nil, raw(`{"page":4}`)} {
				for _, result := range []string{"", `{"ok":true}`} {
					for way, complete := range r.completions() {
						row := r.attempted(phase, attempt, earlier)
						before := r.get(row.ID)
						sameOr(t, earlier, before.Result, "the row before")
						s := finish(row)
						s.Outcome.Result = raw(result)
						if phase == task.Rollback {
							s.Next.State = task.StateRolledBack
						}
						require.True(t, complete(row.ID, row.Fence, result))
						about := fmt.Sprintf("%s, attempt %d, %q after %q, by %s", phase, attempt, result, earlier, way)
						after := r.get(row.ID)
						require.Equal(t, s.Next.State, after.State, about)
						require.Equal(t, s.InHistory(), len(after.History) == len(before.History)+1, about)
						want := earlier
						if s.NewResult() {
							want = s.Outcome.Result
						}
						sameOr(t, want, after.Result, about)
						r.did(became(task.StatePending), r.h.Retry, r.rolledBack(row.ID), "")
						last := r.get(row.ID).History[len(before.History)]
						require.Equal(t, []any{row.Fence, phase, attempt, task.Succeeded, s.Next.State},
							[]any{last.Fence, last.Phase, last.Attempt, last.Outcome, last.State}, about)
						sameOr(t, s.Outcome.Result, last.Result, about)
						r.settled(finish(r.claimOne(kind, task.Run)))
					}
				}
			}
		}
	}
}

// attempted is a row whose nth attempt of a phase is held, and which has a result of an earlier attempt.
func (r *opsRig) attempted(phase task.Phase, attempt int, result json.RawMessage) task.Task {
	r.t.Helper()
	row := r.heldUnder(beating())
	first := ended(row, task.Deferred, task.StatePending)
	first.Next.Attempt, first.Next.Deferrals, first.Outcome.Result = 0, 1, result
	waits := task.StateRetryPending
	if phase == task.Rollback {
		first = ended(row, task.Failed, task.StateRollbackPending)
		first.Outcome.Result = result
		waits = task.StateRollbackPending
	}
	r.settled(first)
	row = r.claimOne(kind, phase)
	for row.Attempt < attempt {
		r.settled(ended(row, task.Failed, waits))
		row = r.claimOne(kind, phase)
	}
	require.Equal(r.t, attempt, row.Attempt)
	return row
}

// rolledBack rolls a finished task back, unless it is.
func (r *opsRig) rolledBack(id task.ID) task.ID {
	r.t.Helper()
	if r.state(id) != task.StateRolledBack {
		r.did(became(task.StateRollbackPending), r.h.Rollback, id, "")
		r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	}
	return id
}

func ruleDue(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, silent := range []bool{false, true} {
		for _, delay := range []time.Duration{0, time.Minute, 5 * time.Hour} {
			for _, afterLease := range []bool{false, true} {
				row := r.heldUnder(beating())
				r.Advance(t, time.Minute)
				before := r.get(row.ID)
				e := retry(row, delay)
				e.Silent, e.Next.AfterLease = silent, afterLease
				r.settled(e)
				after := r.get(row.ID)
				about := fmt.Sprintf("silent %v, delay %s, after the lease %v", silent, delay, afterLease)
				want := r.now().Add(delay)
				switch {
				case e.KeepsDue():
					want = before.RunAt
				case afterLease && want.Before(*before.LeaseEnd):
					want = *before.LeaseEnd
				}
				near(t, want, after.RunAt)
				if afterLease {
					require.NotNil(t, after.LeaseEnd, about)
					require.WithinDuration(t, *before.LeaseEnd, *after.LeaseEnd, time.Millisecond, about)
				} else {
					require.Nil(t, after.LeaseEnd, about)
				}
				r.did(became(task.StateRollbackPending), r.h.Cancel, row.ID, "") // it is out of the way
				r.Advance(t, 3*time.Hour)
				r.present()
				r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
			}
		}
	}
}

func rulePingWindow(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	policies := map[string]*task.Policy{
		"with a heartbeat": beating(), "without": quiet(), "that cannot be rolled back": oneWayPolicy(),
		"with a longest window below its heartbeat": {
			Timeout: time.Hour, Heartbeat: 20 * time.Minute, MaxHeartbeat: 5 * time.Minute, Stop: time.Minute, Check: 7 * time.Minute,
		},
	}
	for typ, p := range policies {
		r.declare(typ, p)
		for _, phase := range []task.Phase{task.Run, task.Rollback} {
			w := store.Want{Type: typ, Phase: phase, N: 2, Window: p.Window(phase), Policy: p.Hash("a")}
			row := r.heldIn(w)
			for _, asked := range []time.Duration{0, time.Minute, 25 * time.Minute, 5 * time.Hour} {
				for way, ping := range r.pingers() {
					r.Advance(t, 5*time.Second)
					about := fmt.Sprintf("%s of a type %s, asked for %s by %s", phase, typ, asked, way)
					reply := ping(row, store.Ping{NextWithin: asked})
					if held := r.held0(); p.PingWindow(phase, asked) == 0 {
						require.False(t, held.Pinged, about)
					} else {
						require.True(t, held.Pinged, about)
						require.InDelta(t, p.PingWindow(phase, asked), held.PingDue, float64(slack), about)
					}
					if reply != nil {
						left := r.get(row.ID).ClaimedAt.Add(p.AttemptLength(phase)).Sub(r.now())
						require.InDelta(t, left, reply.Remaining, float64(slack), about)
					}
				}
			}
			r.settled(finish(row))
		}
	}
}

// heldIn is a row of which an attempt of the wanted type and phase is held.
func (r *opsRig) heldIn(w store.Want) task.Task {
	r.t.Helper()
	r.Insert(r.t, store.EnqueueRequest{Type: w.Type})
	run := w
	run.Phase = task.Run
	row := r.claim(run)[0]
	if w.Phase == task.Rollback {
		r.settled(ended(row, task.Failed, task.StateRollbackPending))
		row = r.claim(w)[0]
	}
	return row
}

// pingers are the ways in which a ping arrives elsewhere than at its agent; the reply is nil where it cannot be read.
func (r *opsRig) pingers() map[string]func(task.Task, store.Ping) *store.PingReply {
	return map[string]func(task.Task, store.Ping) *store.PingReply{
		"Go": func(row task.Task, p store.Ping) *store.PingReply {
			reply := r.counted(row, p)
			return &reply
		},
		"SQL": func(row task.Task, p store.Ping) *store.PingReply {
			reply, err := r.pingSQL(row.ID, row.Fence, p)
			require.NoError(r.t, err)
			return reply
		},
	}
}
