package task_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// policy retries twice, after 1 s and 2 s, releases three times in a row, and can be rolled back with one retry.
func policy() *task.Policy {
	return &task.Policy{
		Timeout: 20 * time.Second,
		Stop:    7 * time.Second,
		Retry: task.Retry{
			Limit: 2, Backoff: task.Exponential, Min: time.Second, Max: time.Minute,
			On: task.DefaultOn(), MaxDeferrals: 3,
		},
		Rollback: &task.RollbackPolicy{
			Timeout: time.Minute, Stop: 9 * time.Second,
			Retry: task.Retry{Limit: 1, Backoff: task.Constant, Min: 5 * time.Second, Max: time.Minute, MaxDeferrals: 3},
		},
	}
}

func oneWay() *task.Policy {
	p := policy()
	p.Rollback = nil
	return p
}

// patient waits longer after an attempt that was lost.
func patient() *task.Policy {
	p := policy()
	p.Retry.After = map[task.Verdict]time.Duration{task.Lost: time.Hour}
	return p
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// attempt is a row in the middle of its nth attempt at noon.
func attempt(n int, change ...func(*task.Task)) *task.Task {
	t := &task.Task{ID: 1, State: task.StateRunning, Attempt: n, EverStarted: n > 1, LeaseEnd: noon.Add(28 * time.Second)}
	for _, c := range change {
		c(t)
	}
	return t
}

func cancelRequested(t *task.Task)     { t.CancelRequested = true }
func everStarted(t *task.Task)         { t.EverStarted = true }
func rollingBack(t *task.Task)         { t.State, t.EverStarted = task.StateRollbackRunning, true }
func ownLimit(t *task.Task)            { t.MaxAttempts = 1 }
func deferrals(n int) func(*task.Task) { return func(t *task.Task) { t.Deferrals = n } }
func due(in time.Duration) func(*task.Task) {
	return func(t *task.Task) { t.Deadline = noon.Add(in) }
}

func ended(v task.Verdict) task.Outcome { return task.Outcome{Verdict: v, Error: "because"} }

func neverStarted(v task.Verdict) task.Outcome {
	return task.Outcome{Verdict: v, Error: "because", NeverStarted: true}
}

func unknownEnd(v task.Verdict) task.Outcome {
	return task.Outcome{Verdict: v, Error: "because", EndUnknown: true}
}

func splittable(v task.Verdict) task.Outcome {
	return task.Outcome{Verdict: v, Error: "because", Split: &task.Split{At: "5", Rows: [2]int{1, 1}}}
}

func later(after time.Duration) task.Outcome {
	return task.Outcome{Verdict: task.Deferred, Error: "because", RetryAfter: after}
}

func brief() task.Outcome { return task.Outcome{Verdict: task.Drained, Error: "because", Brief: true} }

type ruling struct {
	name    string
	task    *task.Task
	policy  *task.Policy // nil: policy()
	outcome task.Outcome
	want    task.Transition
}

// check runs Decide at noon with no jitter: delays are then three quarters of the backoff, and Min at the least.
func check(t *testing.T, rulings []ruling) {
	t.Helper()
	for _, r := range rulings {
		t.Run(r.name, func(t *testing.T) {
			p := r.policy
			if p == nil {
				p = policy()
			}
			require.Equal(t, r.want, task.Decide(r.task, p, r.outcome, r.task.Deadline.Sub(noon), 0))
		})
	}
}

func TestDecideRun(t *testing.T) {
	check(t, []ruling{
		{"success ends it", attempt(2), nil, task.Outcome{Verdict: task.Succeeded},
			task.Transition{State: task.StateSucceeded, Attempt: 2, EverStarted: true}},
		{"a failure is tried again", attempt(1), nil, ended(task.Failed), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, Attempt: 1, EverStarted: true,
			Reason: "attempt 1 of 3 failed: because"}},
		{"later ones wait longer", attempt(2), nil, ended(task.TimedOut), task.Transition{
			State: task.StateRetryPending, Delay: 1500 * time.Millisecond, Attempt: 2, EverStarted: true,
			Reason: "attempt 2 of 3 timed out: because"}},
		{"a lost attempt counts", attempt(1), nil, ended(task.Lost), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, Attempt: 1, EverStarted: true,
			Reason: "attempt 1 of 3 was lost: because"}},
		{"an ending may have a delay of its own", attempt(2), patient(), ended(task.Lost), task.Transition{
			State: task.StateRetryPending, Delay: time.Hour, Attempt: 2, EverStarted: true,
			Reason: "attempt 2 of 3 was lost: because"}},
		{"and others are not concerned", attempt(2), patient(), ended(task.Failed), task.Transition{
			State: task.StateRetryPending, Delay: 1500 * time.Millisecond, Attempt: 2, EverStarted: true,
			Reason: "attempt 2 of 3 failed: because"}},
		{"poison runs out of attempts", attempt(3), oneWay(), ended(task.Lost), task.Transition{
			State: task.StateFailed, Attempt: 3, EverStarted: true, Reason: "attempt 3 of 3 was lost: because"}},
		{"out of attempts", attempt(3), oneWay(), ended(task.Stalled), task.Transition{
			State: task.StateFailed, Attempt: 3, EverStarted: true, Reason: "attempt 3 of 3 stalled: because"}},
		{"the row's own limit goes first", attempt(1, ownLimit), oneWay(), ended(task.Failed), task.Transition{
			State: task.StateFailed, Attempt: 1, EverStarted: true, Reason: "attempt 1 of 1 failed: because"}},
		{"a rejection is final", attempt(1), oneWay(), ended(task.Rejected), task.Transition{
			State: task.StateFailed, Attempt: 1, EverStarted: true, Reason: "attempt 1 of 3 was rejected: because"}},
		{"no error, no colon", attempt(1), oneWay(), task.Outcome{Verdict: task.Rejected}, task.Transition{
			State: task.StateFailed, Attempt: 1, EverStarted: true, Reason: "attempt 1 of 3 was rejected"}},
		{"an unknown end waits for the lease", attempt(1), nil, unknownEnd(task.Failed), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, AfterLease: true, Attempt: 1, EverStarted: true,
			Reason: "attempt 1 of 3 failed: because"}},
		{"success needs no lease", attempt(1), nil, unknownEnd(task.Succeeded),
			task.Transition{State: task.StateSucceeded, Attempt: 1, EverStarted: true}},
		{"what counts ends a row of deferrals", attempt(1, deferrals(3)), nil, ended(task.Failed), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, Attempt: 1, EverStarted: true,
			Reason: "attempt 1 of 3 failed: because"}},
	})
}

func TestDecideRetriesOnlyWhatIsDeclared(t *testing.T) {
	p := oneWay()
	p.Retry.On = []task.Verdict{task.Failed}
	check(t, []ruling{
		{"declared", attempt(1), p, ended(task.Failed), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, Attempt: 1, EverStarted: true,
			Reason: "attempt 1 of 3 failed: because"}},
		{"not declared", attempt(1), p, ended(task.TimedOut), task.Transition{
			State: task.StateFailed, Attempt: 1, EverStarted: true,
			Reason: "not retried: attempt 1 of 3 timed out: because"}},
		{"a verdict that does not exist", attempt(1), p, ended("odd"), task.Transition{
			State: task.StateFailed, Attempt: 1, EverStarted: true, Reason: "not retried: attempt 1 of 3 odd: because"}},
		{"releases need no declaration", attempt(1), p, neverStarted(task.Undelivered), task.Transition{
			State: task.StatePending, Reason: "attempt 1 of 3 was not delivered: because"}},
	})
}

func TestDecideReleases(t *testing.T) {
	check(t, []ruling{
		{"undelivered: at once, as if it had never been", attempt(1), nil, neverStarted(task.Undelivered), task.Transition{
			State: task.StatePending, Reason: "attempt 1 of 3 was not delivered: because"}},
		{"undelivered: earlier attempts still count", attempt(2), nil, neverStarted(task.Undelivered), task.Transition{
			State: task.StateRetryPending, Attempt: 1, EverStarted: true,
			Reason: "attempt 2 of 3 was not delivered: because"}},
		{"undelivered and drained leave the row of deferrals", attempt(3, deferrals(3)), nil, ended(task.Drained),
			task.Transition{State: task.StateRetryPending, Attempt: 2, Deferrals: 3, EverStarted: true,
				Reason: "attempt 3 of 3 was stopped by the agent: because"}},
		{"drained: started, so everStarted", attempt(1), nil, unknownEnd(task.Drained), task.Transition{
			State: task.StatePending, AfterLease: true, EverStarted: true,
			Reason: "attempt 1 of 3 was stopped by the agent: because"}},
		{"never for the last time, though the limit was lowered since", attempt(3, ownLimit), nil, ended(task.Drained),
			task.Transition{State: task.StateRetryPending, Attempt: 2, EverStarted: true,
				Reason: "attempt 3 of 1 was stopped by the agent: because"}},
		{"deferred: backs off", attempt(1), nil, ended(task.Deferred), task.Transition{
			State: task.StatePending, Delay: time.Second, Deferrals: 1, EverStarted: true,
			Reason: "attempt 1 of 3 was asked to come later: because"}},
		{"deferred: further each time", attempt(1, deferrals(2)), nil, ended(task.Deferred), task.Transition{
			State: task.StatePending, Delay: 3 * time.Second, Deferrals: 3, EverStarted: true,
			Reason: "attempt 1 of 3 was asked to come later: because"}},
		{"deferred: as long as asked", attempt(1), nil, later(90 * time.Second), task.Transition{
			State: task.StatePending, Delay: 90 * time.Second, Deferrals: 1, EverStarted: true,
			Reason: "attempt 1 of 3 was asked to come later: because"}},
		{"deferred: at most an hour", attempt(1), nil, later(30 * time.Hour), task.Transition{
			State: task.StatePending, Delay: time.Hour, Deferrals: 1, EverStarted: true,
			Reason: "attempt 1 of 3 was asked to come later: because"}},
		{"deferred: at least min", attempt(1), nil, later(time.Millisecond), task.Transition{
			State: task.StatePending, Delay: time.Second, Deferrals: 1, EverStarted: true,
			Reason: "attempt 1 of 3 was asked to come later: because"}},
		{"past the limit each counts", attempt(1, deferrals(3)), nil, ended(task.Deferred), task.Transition{
			State: task.StateRetryPending, Delay: 6 * time.Second, Attempt: 1, Deferrals: 4, EverStarted: true,
			Reason: "attempt 1 of 3 was asked to come later (4 times in a row, and only 3 are free): because"}},
		{"until the attempts are spent", attempt(3, deferrals(5)), oneWay(), ended(task.Deferred), task.Transition{
			State: task.StateFailed, Attempt: 3, Deferrals: 6, EverStarted: true,
			Reason: "attempt 3 of 3 was asked to come later (6 times in a row, and only 3 are free): because"}},
		{"superseded: never before the lease's end", attempt(2), nil, ended(task.Superseded), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, AfterLease: true, Attempt: 1, Deferrals: 1, EverStarted: true,
			Reason: "attempt 2 of 3 was superseded by a newer one: because"}},
		{"superseded counts past the limit too", attempt(3, deferrals(3)), oneWay(), ended(task.Superseded), task.Transition{
			State: task.StateFailed, AfterLease: true, Attempt: 3, Deferrals: 4, EverStarted: true,
			Reason: "attempt 3 of 3 was superseded by a newer one (4 times in a row, and only 3 are free): because"}},
	})
}

// What ends in its check has started nothing, and what is left of a check is over when it has been stopped: its lease is
// as long as if the attempt had followed.
func TestDecideInCheck(t *testing.T) {
	inCheck := func(o task.Outcome) task.Outcome {
		o.InCheck, o.NeverStarted = true, true
		return o
	}
	check(t, []ruling{
		{"done already", attempt(1), nil, inCheck(task.Outcome{Verdict: task.Succeeded}), task.Transition{
			State: task.StateSucceeded, Attempt: 1}},
		{"a failed check is a failed attempt", attempt(1), nil, inCheck(ended(task.Failed)), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, Attempt: 1, Reason: "attempt 1 of 3 failed: because"}},
		{"not before it has been stopped", attempt(1), nil, inCheck(unknownEnd(task.TimedOut)), task.Transition{
			State: task.StateRetryPending, Delay: 7 * time.Second, Attempt: 1, Reason: "attempt 1 of 3 timed out: because"}},
		{"released", attempt(1), nil, inCheck(unknownEnd(task.Drained)), task.Transition{
			State: task.StatePending, Delay: 7 * time.Second, Reason: "attempt 1 of 3 was stopped by the agent: because"}},
		{"the last: there is nothing to roll back", attempt(1, ownLimit), nil, inCheck(ended(task.Rejected)), task.Transition{
			State: task.StateFailed, Attempt: 1, Reason: "attempt 1 of 1 was rejected: because"}},
		{"but what attempts before it have started", attempt(3), nil, inCheck(unknownEnd(task.TimedOut)), task.Transition{
			State: task.StateRollbackPending, Delay: 7 * time.Second, EverStarted: true, Reason: "attempt 3 of 3 timed out: because"}},
		{"nothing to roll back where it is cancelled", attempt(1, cancelRequested), nil, inCheck(unknownEnd(task.Cancelled)), task.Transition{
			State: task.StateCancelled, Attempt: 1, Reason: "attempt 1 of 3 was cancelled: because"}},
		{"a newer attempt is at work for as long as it may", attempt(2), nil, inCheck(ended(task.Superseded)), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, AfterLease: true, Attempt: 1, Deferrals: 1, EverStarted: true,
			Reason: "attempt 2 of 3 was superseded by a newer one: because"}},
	})
}

// What ends within moments of its start again and again may have brought that about itself: it stops its own agent, or
// kills itself. That is bounded as being asked to come later is.
func TestDecideBrief(t *testing.T) {
	check(t, []ruling{
		{"once: at once, as if it had never been", attempt(1), nil, brief(), task.Transition{
			State: task.StatePending, Deferrals: 1, EverStarted: true, Reason: "attempt 1 of 3 was released: because"}},
		{"twice in a row: not without a pause", attempt(1, deferrals(1)), nil, brief(), task.Transition{
			State: task.StatePending, Delay: time.Second, Deferrals: 2, EverStarted: true,
			Reason: "attempt 1 of 3 was released: because"}},
		{"a pause of no more than seconds", attempt(1, deferrals(3)), withDeferrals(100), brief(), task.Transition{
			State: task.StatePending, Delay: 3 * time.Second, Deferrals: 4, EverStarted: true,
			Reason: "attempt 1 of 3 was released: because"}},
		{"nor later on", attempt(1, deferrals(60)), withDeferrals(100), brief(), task.Transition{
			State: task.StatePending, Delay: 5 * time.Second, Deferrals: 61, EverStarted: true,
			Reason: "attempt 1 of 3 was released: because"}},
		{"a check that does so has started nothing", attempt(1), nil,
			task.Outcome{Verdict: task.Drained, Error: "because", Brief: true, InCheck: true, NeverStarted: true}, task.Transition{
				State: task.StatePending, Deferrals: 1, Reason: "attempt 1 of 3 was released: because"}},
		{"a request may still be at work", attempt(1), nil,
			task.Outcome{Verdict: task.Drained, Error: "because", Brief: true, EndUnknown: true}, task.Transition{
				State: task.StatePending, Deferrals: 1, AfterLease: true, EverStarted: true,
				Reason: "attempt 1 of 3 was released: because"}},
		{"past the limit each counts", attempt(1, deferrals(3)), nil, brief(), task.Transition{
			State: task.StateRetryPending, Delay: 3 * time.Second, Attempt: 1, Deferrals: 4, EverStarted: true,
			Reason: "attempt 1 of 3 was released (4 times in a row, and only 3 are free): because"}},
		{"until the attempts are spent, whatever is retried", attempt(3, deferrals(5)), oneWay(), brief(), task.Transition{
			State: task.StateFailed, Attempt: 3, Deferrals: 6, EverStarted: true,
			Reason: "attempt 3 of 3 was released (6 times in a row, and only 3 are free): because"}},
		{"a rollback, too", attempt(2, rollingBack, deferrals(3)), nil, brief(), task.Transition{
			State: task.StateRollbackFailed, Attempt: 2, Deferrals: 4, EverStarted: true,
			Reason: "rollback attempt 2 of 2 was released (4 times in a row, and only 3 are free): because"}},
	})
}

// withDeferrals is policy with another limit of deferrals.
func withDeferrals(n int) *task.Policy {
	p := policy()
	p.Retry.MaxDeferrals = n
	return p
}

func TestDecideUndeliveredAndDrainedAreNeverBounded(t *testing.T) {
	for _, v := range []task.Verdict{task.Undelivered, task.Drained} {
		row := attempt(1)
		for range 10_000 {
			next := task.Decide(row, policy(), neverStarted(v), 0, 0)
			require.Equal(t, task.StatePending, next.State)
			require.Zero(t, next.Delay)
			row.Attempt, row.Deferrals = next.Attempt+1, next.Deferrals
		}
		require.Equal(t, 1, row.Attempt)
	}
}

func TestTransitionCounts(t *testing.T) {
	for _, c := range []struct {
		p     *task.Policy
		o     task.Outcome
		count bool
	}{
		{policy(), ended(task.Failed), true}, {policy(), ended(task.Rejected), true}, {oneWay(), ended(task.Rejected), true},
		{policy(), ended(task.Undelivered), false}, {policy(), ended(task.Deferred), false}, {withDeferrals(0), ended(task.Deferred), true},
	} {
		row := attempt(1)
		next := task.Decide(row, c.p, c.o, 0, 0.5)
		require.Equal(t, c.count, next.Counts(row), "%s: %s", c.o.Verdict, next.State)
	}
}

func TestDecideCancel(t *testing.T) {
	check(t, []ruling{
		{"success stands", attempt(1, cancelRequested), nil, task.Outcome{Verdict: task.Succeeded},
			task.Transition{State: task.StateSucceeded, Attempt: 1, EverStarted: true}},
		{"stopped for it", attempt(1, cancelRequested), oneWay(), ended(task.Cancelled), task.Transition{
			State: task.StateCancelled, Attempt: 1, EverStarted: true, Reason: "attempt 1 of 3 was cancelled: because"}},
		{"stopped for it before the row said so", attempt(1), oneWay(), ended(task.Cancelled), task.Transition{
			State: task.StateCancelled, Attempt: 1, EverStarted: true, Reason: "attempt 1 of 3 was cancelled: because"}},
		{"a failure is not tried again", attempt(1, cancelRequested), oneWay(), ended(task.Failed), task.Transition{
			State: task.StateCancelled, Attempt: 1, EverStarted: true,
			Reason: "cancellation requested; attempt 1 of 3 failed: because"}},
		{"a rejection is a cancellation too", attempt(1, cancelRequested), oneWay(), ended(task.Rejected), task.Transition{
			State: task.StateCancelled, Attempt: 1, EverStarted: true,
			Reason: "cancellation requested; attempt 1 of 3 was rejected: because"}},
		{"what is released does not come back", attempt(1, cancelRequested), nil, neverStarted(task.Undelivered), task.Transition{
			State:  task.StateCancelled,
			Reason: "cancellation requested; attempt 1 of 3 was not delivered: because"}},
		{"what was started is rolled back", attempt(1, cancelRequested), nil, unknownEnd(task.Drained), task.Transition{
			State: task.StateRollbackPending, AfterLease: true, EverStarted: true,
			Reason: "cancellation requested; attempt 1 of 3 was stopped by the agent: because"}},
	})
}

func TestDecideRollsBackWhatWasStarted(t *testing.T) {
	check(t, []ruling{
		{"out of attempts", attempt(3), nil, ended(task.Failed), task.Transition{
			State: task.StateRollbackPending, EverStarted: true, Reason: "attempt 3 of 3 failed: because"}},
		{"rejected", attempt(1, deferrals(2)), nil, ended(task.Rejected), task.Transition{
			State: task.StateRollbackPending, EverStarted: true, Reason: "attempt 1 of 3 was rejected: because"}},
		{"never started: nothing to roll back", attempt(1), nil, neverStarted(task.Rejected), task.Transition{
			State: task.StateFailed, Attempt: 1, Reason: "attempt 1 of 3 was rejected: because"}},
		{"started by an earlier attempt that was released", attempt(1, everStarted), nil, neverStarted(task.Rejected),
			task.Transition{State: task.StateRollbackPending, EverStarted: true,
				Reason: "attempt 1 of 3 was rejected: because"}},
		{"not while the far side may still be at work", attempt(3), nil, unknownEnd(task.TimedOut), task.Transition{
			State: task.StateRollbackPending, AfterLease: true, EverStarted: true,
			Reason: "attempt 3 of 3 timed out: because"}},
		{"nor while a newer attempt may", attempt(3, deferrals(3)), nil, ended(task.Superseded), task.Transition{
			State: task.StateRollbackPending, AfterLease: true, EverStarted: true,
			Reason: "attempt 3 of 3 was superseded by a newer one (4 times in a row, and only 3 are free): because"}},
		{"past its deadline", attempt(1, due(0)), nil, ended(task.TimedOut), task.Transition{
			State: task.StateRollbackPending, EverStarted: true,
			Reason: "its deadline has passed; attempt 1 of 3 timed out: because"}},
	})
}

func TestDecideRollback(t *testing.T) {
	check(t, []ruling{
		{"rolled back", attempt(1, rollingBack), nil, task.Outcome{Verdict: task.Succeeded},
			task.Transition{State: task.StateRolledBack, Attempt: 1, EverStarted: true}},
		{"tried again, whatever is declared for the run", attempt(1, rollingBack), nil, ended(task.TimedOut),
			task.Transition{State: task.StateRollbackPending, Delay: 5 * time.Second, Attempt: 1, EverStarted: true,
				Reason: "rollback attempt 1 of 2 timed out: because"}},
		{"lost", attempt(1, rollingBack), nil, ended(task.Lost), task.Transition{
			State: task.StateRollbackPending, Delay: 5 * time.Second, Attempt: 1, EverStarted: true,
			Reason: "rollback attempt 1 of 2 was lost: because"}},
		{"a cancellation never stops it", attempt(1, rollingBack, cancelRequested), nil, ended(task.Cancelled),
			task.Transition{State: task.StateRollbackPending, Delay: 5 * time.Second, Attempt: 1, EverStarted: true,
				Reason: "rollback attempt 1 of 2 was cancelled: because"}},
		{"nor does the deadline", attempt(1, rollingBack, due(-time.Hour)), nil, ended(task.Failed), task.Transition{
			State: task.StateRollbackPending, Delay: 5 * time.Second, Attempt: 1, EverStarted: true,
			Reason: "rollback attempt 1 of 2 failed: because"}},
		{"released to the rollback", attempt(1, rollingBack), nil, unknownEnd(task.Drained), task.Transition{
			State: task.StateRollbackPending, AfterLease: true, EverStarted: true,
			Reason: "rollback attempt 1 of 2 was stopped by the agent: because"}},
		{"asked to come later", attempt(2, rollingBack), nil, ended(task.Deferred), task.Transition{
			State: task.StateRollbackPending, Delay: 5 * time.Second, Attempt: 1, Deferrals: 1, EverStarted: true,
			Reason: "rollback attempt 2 of 2 was asked to come later: because"}},
		{"out of attempts", attempt(2, rollingBack), nil, ended(task.Failed), task.Transition{
			State: task.StateRollbackFailed, Attempt: 2, EverStarted: true,
			Reason: "rollback attempt 2 of 2 failed: because"}},
		{"the row's own limit is the run's", attempt(1, rollingBack, ownLimit), nil, ended(task.Failed), task.Transition{
			State: task.StateRollbackPending, Delay: 5 * time.Second, Attempt: 1, EverStarted: true,
			Reason: "rollback attempt 1 of 2 failed: because"}},
		{"rejected", attempt(1, rollingBack), nil, ended(task.Rejected), task.Transition{
			State: task.StateRollbackFailed, Attempt: 1, EverStarted: true,
			Reason: "rollback attempt 1 of 2 was rejected: because"}},
	})
}

func TestDecideSplits(t *testing.T) {
	split := task.Transition{State: task.StateSplit, Attempt: 3, EverStarted: true, AfterLease: true,
		Reason: "split in two: attempt 3 of 3 stalled: because"}
	timedOut := split
	timedOut.Attempt, timedOut.Reason = 1, "split in two: attempt 1 of 3 timed out: because"
	check(t, []ruling{
		{"in place of the end", attempt(3), nil, splittable(task.Stalled), split},
		{"in place of another attempt", attempt(1), nil, splittable(task.TimedOut), timedOut},
		{"in time", attempt(1, due(time.Minute)), nil, splittable(task.TimedOut), timedOut},
		{"only what is stuck", attempt(1), oneWay(), splittable(task.Failed), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, Attempt: 1, EverStarted: true, Reason: "attempt 1 of 3 failed: because"}},
		{"no sooner than the lease ends", attempt(1, due(28*time.Second)), oneWay(), splittable(task.Stalled), task.Transition{
			State: task.StateRetryPending, Delay: time.Second, Attempt: 1, EverStarted: true, Reason: "attempt 1 of 3 stalled: because"}},
		{"past its deadline", attempt(1, due(-1)), oneWay(), splittable(task.Stalled), task.Transition{
			State: task.StateFailed, Attempt: 1, EverStarted: true, Reason: "its deadline has passed; attempt 1 of 3 stalled: because"}},
		{"a cancellation counts more", attempt(1, cancelRequested), oneWay(), splittable(task.Stalled), task.Transition{
			State: task.StateCancelled, Attempt: 1, EverStarted: true, Reason: "cancellation requested; attempt 1 of 3 stalled: because"}},
		{"a rollback is not split", attempt(1, rollingBack), nil, splittable(task.Stalled),
			task.Decide(attempt(1, rollingBack), policy(), ended(task.Stalled), 0, 0)},
	})
}

func TestDecideDeadline(t *testing.T) {
	retried := task.Transition{State: task.StateRetryPending, Delay: time.Second, Attempt: 1, EverStarted: true,
		Reason: "attempt 1 of 3 failed: because"}
	afterLease := retried
	afterLease.AfterLease = true
	tooLate := task.Transition{State: task.StateFailed, Attempt: 1, EverStarted: true,
		Reason: "the next attempt would come after its deadline; attempt 1 of 3 failed: because"}
	hanging := tooLate
	hanging.AfterLease = true
	check(t, []ruling{
		{"in time", attempt(1, due(time.Second+1)), oneWay(), ended(task.Failed), retried},
		{"the next attempt would have no time", attempt(1, due(time.Second)), oneWay(), ended(task.Failed), tooLate},
		{"after the lease, and in time", attempt(1, due(29*time.Second)), oneWay(), unknownEnd(task.Failed), afterLease},
		{"after the lease is too late", attempt(1, due(28*time.Second)), oneWay(), unknownEnd(task.Failed), hanging},
		{"success stands", attempt(1, due(-1)), oneWay(), task.Outcome{Verdict: task.Succeeded},
			task.Transition{State: task.StateSucceeded, Attempt: 1, EverStarted: true}},
		{"asked to come too late", attempt(1, due(time.Minute)), oneWay(), later(2 * time.Minute), task.Transition{
			State: task.StateFailed, Deferrals: 1, EverStarted: true,
			Reason: "the next attempt would come after its deadline; attempt 1 of 3 was asked to come later: because"}},
		{"released past it", attempt(1, due(0)), nil, neverStarted(task.Undelivered), task.Transition{
			State:  task.StateFailed,
			Reason: "its deadline has passed; attempt 1 of 3 was not delivered: because"}},
		{"out of attempts is the nearer reason", attempt(3, due(-1)), oneWay(), ended(task.Failed), task.Transition{
			State: task.StateFailed, Attempt: 3, EverStarted: true, Reason: "attempt 3 of 3 failed: because"}},
	})
	t.Run("none declared", func(t *testing.T) {
		require.Equal(t, retried, task.Decide(attempt(1), oneWay(), ended(task.Failed), -time.Hour, 0))
	})
}

func TestDecideBoundsTheReason(t *testing.T) {
	long := task.Outcome{Verdict: task.Failed, Error: strings.Repeat("é", task.MaxError)}
	reason := task.Decide(attempt(1), policy(), long, 0, 0).Reason
	require.LessOrEqual(t, len(reason), task.MaxError)
	require.Greater(t, len(reason), task.MaxError-8)
	require.True(t, strings.HasSuffix(reason, "é…"), reason[len(reason)-8:])
}
