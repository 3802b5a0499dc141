package store_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// success is a run that succeeds at its first try; each change makes another settlement of it.
func success(changes ...func(*store.Settlement)) *store.Settlement {
	s := &store.Settlement{
		ID: 1, Fence: 1, RanFence: 1, Phase: task.Run, Attempt: 1, Started: time.Second,
		Next:    task.Transition{State: task.StateSucceeded, Attempt: 1, EverStarted: true},
		Outcome: task.Outcome{Verdict: task.Succeeded},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func ends(v task.Verdict, next task.State) func(*store.Settlement) {
	return func(s *store.Settlement) { s.Outcome.Verdict, s.Next.State = v, next }
}

func withResult(s *store.Settlement) { s.Outcome.Result = json.RawMessage(`{"page":4}`) }
func withError(s *store.Settlement)  { s.Outcome.Error = "it broke" }
func withNote(s *store.Settlement)   { s.Outcome.Note = "result not kept" }
func reaped(s *store.Settlement)     { s.RanFence, s.Fence = 1, 2 }
func silent(s *store.Settlement)     { s.Silent = true }
func second(s *store.Settlement)     { s.Attempt, s.Next.Attempt = 2, 2 }
func rollback(s *store.Settlement)   { s.Phase, s.Next.State = task.Rollback, task.StateRolledBack }
func later(s *store.Settlement)      { s.Next.Delay = time.Second }
func cancelKnown(s *store.Settlement) {
	s.CancelKnown = true
}

func TestWhatASettlementLeaves(t *testing.T) {
	failed := ends(task.Failed, task.StateFailed)
	retried := ends(task.Failed, task.StateRetryPending)
	for _, c := range []struct {
		name      string
		s         *store.Settlement
		history   bool
		newResult bool
	}{
		{"a success at the first try: the archived row contains all of it", success(withResult), false, true},
		{"and also that there is no result", success(), false, true},
		{"one with a note: the row has it in place of the error", success(withNote), true, false},
		{"one that was reaped ran with another fence", success(reaped, withResult), true, true},
		{"a later success", success(second, withResult), true, true},
		{"a later success keeps the result of an earlier attempt", success(second), true, false},
		{"a failure", success(failed, withError), true, false},
		{"a failure with a result", success(failed, withResult), true, true},
		{"a retry keeps the result of an earlier attempt", success(retried), true, false},
		{"a retry with a result", success(retried, withResult), true, true},
		{"a rollback: its result is in the history only", success(rollback, withResult), true, false},
		{"a silent release", success(silent, ends(task.Drained, task.StatePending)), false, false},
		{"a silent end", success(silent, ends(task.Drained, task.StateFailed)), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.history, c.s.InHistory(), "history")
			require.Equal(t, c.newResult, c.s.NewResult(), "new result")
		})
	}
}

func TestCauseOfTheRollbackThatASettlementBegins(t *testing.T) {
	for _, c := range []struct {
		name string
		s    *store.Settlement
		want task.Verdict
	}{
		{"it ends", success(ends(task.Failed, task.StateFailed)), ""},
		{"it is retried", success(ends(task.Failed, task.StateRetryPending)), ""},
		{"it failed", success(ends(task.Failed, task.StateRollbackPending)), task.Failed},
		{"it stalled", success(ends(task.Stalled, task.StateRollbackPending)), task.Stalled},
		{"it was cancelled", success(ends(task.Cancelled, task.StateRollbackPending)), task.Cancelled},
		{"past its deadline", success(ends(task.Deferred, task.StateRollbackPending)), task.Failed},
		{"past its deadline, silently", success(silent, ends(task.Drained, task.StateRollbackPending)), task.Failed},
		{"a rollback is retried", success(rollback, ends(task.Failed, task.StateRollbackPending)), ""},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, c.s.Cause()) })
	}
}

func TestKeepsDue(t *testing.T) {
	released := ends(task.Drained, task.StatePending)
	require.True(t, success(silent, released).KeepsDue())
	require.False(t, success(silent, released, later).KeepsDue(), "it is to wait")
	require.False(t, success(released).KeepsDue(), "something was tried")
}

func TestDueAnew(t *testing.T) {
	require.False(t, success(ends(task.Failed, task.StateRetryPending)).DueAnew())
	require.False(t, success(silent, ends(task.Drained, task.StatePending)).DueAnew())
	require.True(t, success(ends(task.Deferred, task.StatePending)).DueAnew(), "the task itself asked for it")
	require.True(t, success(ends(task.Failed, task.StateRollbackPending)).DueAnew(), "the rollback begins")
	require.False(t, success(rollback, ends(task.Failed, task.StateRollbackPending)).DueAnew(), "and is retried")
}

func TestCancelUnseen(t *testing.T) {
	for next, want := range map[task.State]bool{
		task.StatePending: true, task.StateRetryPending: true, task.StateSucceeded: false, task.StateFailed: false,
		task.StateCancelled: false, task.StateRollbackPending: false,
	} {
		require.Equal(t, want, success(ends(task.Failed, next)).CancelUnseen(), next)
		require.False(t, success(ends(task.Failed, next), cancelKnown).CancelUnseen(), next)
	}
}
