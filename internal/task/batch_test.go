package task_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
)

func shared() task.Outcome {
	return task.Outcome{Verdict: task.Drained, Error: "because", Shared: true}
}

// What fails with others in one request uses no attempt, however often it was deferred before.
func TestDecideShared(t *testing.T) {
	unknown := shared()
	unknown.EndUnknown = true
	check(t, []ruling{
		{"due at once", attempt(1), nil, shared(), task.Transition{
			State: task.StatePending, Deferrals: 1, EverStarted: true, Reason: "attempt 1 of 3 was released: because"}},
		{"not before the lease's end, if the end is unknown", attempt(2), nil, unknown, task.Transition{
			State: task.StateRetryPending, AfterLease: true, Attempt: 1, Deferrals: 1, EverStarted: true, Reason: "attempt 2 of 3 was released: because"}},
		{"past the limit of deferrals, too", attempt(3, deferrals(50)), nil, shared(), task.Transition{
			State: task.StateRetryPending, Attempt: 2, Deferrals: 51, EverStarted: true, Reason: "attempt 3 of 3 was released: because"}},
		{"a rollback", attempt(2, rollingBack, deferrals(3)), nil, shared(), task.Transition{
			State: task.StateRollbackPending, Attempt: 1, Deferrals: 4, EverStarted: true, Reason: "rollback attempt 2 of 2 was released: because"}},
	})
}

func TestSharesWith(t *testing.T) {
	row := func(deferrals int, outcome task.Verdict) *task.Task {
		r := &task.Task{Deferrals: deferrals}
		if outcome != "" {
			r.Previous = &task.Previous{Outcome: outcome}
		}
		return r
	}
	for _, c := range []struct {
		row  *task.Task
		want int
	}{
		{row(0, ""), 100},
		{row(0, task.Drained), 100},
		{row(1, task.Drained), 50},
		{row(2, task.Undelivered), 25},
		{row(6, task.Drained), 1},
		{row(7, task.Drained), 1},
		{row(1_000_000, task.Drained), 1},
		{row(3, task.Deferred), 100},
		{row(0, task.Failed), 100},
		{&task.Task{HasAfter: true}, 1},
	} {
		require.Equal(t, c.want, c.row.SharesWith(100), "%+v", c.row)
	}
}

// However often and in whatever company its request fails, a task is alone after ten failures, and then its end is its own: so
// it cannot go on without an attempt for ever.
func TestATaskIsAloneSoon(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &task.Policy{Timeout: time.Minute, Stop: time.Second, Retry: task.Retry{Limit: 2, On: task.DefaultOn(), MaxDeferrals: rapid.IntRange(0, 5).Draw(t, "max deferrals")}}
		row := &task.Task{ID: 1, State: task.StateRunning, Attempt: 1, Deferrals: rapid.IntRange(0, 20).Draw(t, "deferrals")}
		most := rapid.IntRange(1, task.MaxBatch).Draw(t, "max")
		failures := 0
		for ; row.SharesWith(most) > 1; failures++ {
			o := shared()
			next := task.Decide(row, p, o, 0, 0)
			require.True(t, next.State.Waiting())
			require.False(t, next.Counts(row))
			row.Attempt, row.Deferrals, row.Previous = next.Attempt+1, next.Deferrals, &task.Previous{Outcome: o.Verdict}
			if rapid.Bool().Draw(t, "not delivered next time") {
				next = task.Decide(row, p, task.Outcome{Verdict: task.Undelivered, NeverStarted: true}, 0, 0)
				row.Attempt, row.Deferrals, row.Previous = next.Attempt+1, next.Deferrals, &task.Previous{Outcome: task.Undelivered}
			}
		}
		require.LessOrEqual(t, failures, 10)
		require.Equal(t, 1, row.Attempt)
	})
}
