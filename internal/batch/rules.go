package batch

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// CanRollBack reports whether what a finished task did can be rolled back, and was not. The stores' rollback_batch has the same
// rule, to say whether there is anything to roll back in a batch that has ended; the conformance suite compares them.
func CanRollBack(t *store.BatchTask) bool {
	switch t.State {
	case task.StateSucceeded, task.StateFailed, task.StateCancelled:
		return t.EverStarted && (t.OwnRollback || t.TypeRollback)
	}
	return false
}

// HasFailed reports whether a finished task failed, also if it was rolled back since. The stores' retry_batch has the same rule,
// to say whether there is anything to retry; the conformance suite compares them.
func HasFailed(t *store.BatchTask) bool {
	return t.State == task.StateFailed ||
		t.State == task.StateRolledBack && t.Cause != task.Succeeded && t.Cause != task.Cancelled
}

// canRetry reports whether an operation retries a finished task: one that had failed when that was requested.
func canRetry(o *store.Operation, t *store.BatchTask) bool {
	return HasFailed(t) && !t.Finished.After(o.RequestedAt)
}

// cancelled says what becomes of a waiting task that is cancelled: one that was ever started is rolled back where it can be.
// A cancel goes by the policy that the task's last attempt started with; a rollback by all policies of its type.
func cancelled(o *store.Operation, t *store.BatchTask) store.Cancellation {
	can := t.OwnRollback || o.Verb == store.VerbRollback && t.TypeRollback
	return store.Cancellation{BatchTask: *t, RollBack: task.RollsBack(t.EverStarted, can)}
}

// requester returns in whose name the tasks of an operation are cancelled.
func requester(o *store.Operation) string {
	switch {
	case o.Task != 0:
		return o.RequestedBy
	case o.RequestedBy == "":
		return fmt.Sprintf("batch %d", o.Batch)
	}
	return fmt.Sprintf("batch %d (%s by %s)", o.Batch, o.Verb, o.RequestedBy)
}

// due returns when the rollback of the nth task that an operation takes is due. All are due within the second before the
// request, in the order in which they are taken, so that claims keep to it; at least a microsecond apart, which takes longer
// than a second for more than a million tasks, and so does taking them.
func due(o *store.Operation, goal, n int64) time.Time {
	goal = max(goal, 1)
	spread := max(time.Second, time.Duration(goal)*time.Microsecond)
	n = min(n, goal)
	// In two parts: the product can be too large.
	whole, rest := int64(spread)/goal, int64(spread)%goal
	return o.RequestedAt.Add(-time.Second + time.Duration(whole*n+rest*n/goal))
}
