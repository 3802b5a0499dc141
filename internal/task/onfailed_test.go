package task_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// A row of on_failed comes with the end of a task that has failed for good, and with no other.
func TestDecideOnFailed(t *testing.T) {
	plain := task.Policy{Retry: task.Retry{Limit: 1, On: task.DefaultOn(), Backoff: task.Constant, Min: time.Second, Max: time.Second}}
	plain.OnFailed = "dead"
	undone := plain
	undone.Rollback = &task.RollbackPolicy{Retry: plain.Retry}
	run := func(attempt int) task.Task {
		return task.Task{State: task.StateRunning, Attempt: attempt, EverStarted: true}
	}
	back := func(cause task.Verdict) task.Task {
		return task.Task{State: task.StateRollbackRunning, Attempt: 2, EverStarted: true, Cause: cause}
	}
	cancelled := run(2)
	cancelled.CancelRequested = true
	late := run(1)
	late.Deadline, late.EverStarted = time.Now(), false
	for _, c := range []struct {
		name    string
		task    task.Task
		policy  *task.Policy
		verdict task.Verdict
		want    string
	}{
		{"a success", run(2), &plain, task.Succeeded, ""},
		{"a retry", run(1), &plain, task.Failed, ""},
		{"out of attempts", run(2), &plain, task.TimedOut, "dead"},
		{"lost for the last time", run(2), &plain, task.Lost, "dead"},
		{"rejected", run(1), &plain, task.Rejected, "dead"},
		{"past its deadline", late, &plain, task.Drained, "dead"},
		{"cancelled", cancelled, &plain, task.Failed, ""},
		{"to be rolled back", run(2), &undone, task.Failed, ""},
		{"a rollback is retried", func() task.Task { r := back(task.Failed); r.Attempt = 1; return r }(), &undone, task.Failed, ""},
		{"rolled back", back(task.Failed), &undone, task.Succeeded, "dead"},
		{"rolled back for no known cause", back(""), &undone, task.Succeeded, "dead"},
		{"rolled back on request", back(task.Succeeded), &undone, task.Succeeded, ""},
		{"rolled back as it was cancelled", back(task.Cancelled), &undone, task.Succeeded, ""},
		{"not rolled back", back(task.Failed), &undone, task.Failed, "dead"},
		{"a cancelled one is not rolled back", back(task.Cancelled), &undone, task.Rejected, "dead"},
	} {
		next := task.Decide(&c.task, c.policy, task.Outcome{Verdict: c.verdict}, -time.Second, 0)
		require.Equal(t, c.want, next.OnFailed, "%s: %s", c.name, next.State)
	}
}
