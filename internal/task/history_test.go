package task_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
)

// Random histories of one row: whatever a policy says, however its attempts end, whenever a cancellation comes.
func TestHistories(t *testing.T) {
	arrows := decided(t)
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t, arrows)
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			if h.row.State.Live() {
				h.step(t, task.Verdicts(), rapid.Bool().Draw(t, "brief"))
			}
		}
		// From here on the target is reached, and agents are stopped by the task alone: an end comes.
		for n := h.bound(); h.row.State.Live(); n-- {
			require.Positive(t, n, "still %s", h.row.State)
			h.step(t, reached(), true)
		}
		require.True(t, h.row.State.Finished())
	})
}

// reached lists the verdicts of attempts that came to the target, or of a lease.
func reached() []task.Verdict {
	var vs []task.Verdict
	for _, v := range task.Verdicts() {
		if v != task.Undelivered {
			vs = append(vs, v)
		}
	}
	return vs
}

// history is a row's life on a store that does nothing but what a store must.
type history struct {
	arrows map[arrow]bool
	policy *task.Policy
	row    *task.Task
	now    time.Time

	sentAway int        // deferred or superseded in a row without counting
	fence    task.Fence // of the attempt before
}

func newHistory(t *rapid.T, arrows map[arrow]bool) *history {
	p := policies().Draw(t, "policy")
	row := &task.Task{ID: 1, State: task.StatePending, MaxAttempts: rapid.IntRange(0, 4).Draw(t, "max_attempts")}
	if p.Deadline > 0 {
		row.Deadline = noon.Add(p.Deadline)
	}
	return &history{arrows: arrows, policy: &p, row: row, now: noon}
}

// bound is how many attempts there can be at most once all of them reach the target: each that counts may have a full
// row of deferrals before it, in both phases.
func (h *history) bound() int {
	n := h.policy.MaxAttempts(task.Run, h.row.MaxAttempts) * (h.policy.Retry.MaxDeferrals + 1)
	if h.policy.Rollback != nil {
		n += h.policy.MaxAttempts(task.Rollback, 0) * (h.policy.Rollback.Retry.MaxDeferrals + 1)
	}
	return n + 1
}

// step claims the row, runs an attempt that ends in one of the verdicts, and settles it. brief: where it is drained, that
// comes within moments.
func (h *history) step(t *rapid.T, verdicts []task.Verdict, brief bool) {
	h.claim(t)
	if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
		h.row.CancelRequested = true
	}
	o := task.Outcome{
		Verdict:      rapid.SampledFrom(verdicts).Draw(t, "verdict"),
		EndUnknown:   rapid.Bool().Draw(t, "end unknown"),
		NeverStarted: rapid.Bool().Draw(t, "never started"),
	}
	o.Brief = brief && o.Verdict == task.Drained
	if o.Verdict == task.Deferred && rapid.Bool().Draw(t, "asked") {
		o.RetryAfter = time.Duration(rapid.IntRange(1, 7200).Draw(t, "after")) * time.Second
	}
	h.now = h.now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "took")) * time.Second)
	next := task.Decide(h.row, h.policy, o, h.row.Deadline.Sub(h.now), rapid.Float64Range(0, 1).Draw(t, "jitter"))
	h.inspect(t, o, next)
	h.settle(t, next)
}

func (h *history) claim(t *rapid.T) {
	h.move(t, h.row.State.Claimed())
	h.row.Fence++
	require.Greater(t, h.row.Fence, h.fence, "a fence was handed out twice")
	h.fence = h.row.Fence
	h.row.Attempt++
	h.row.LeaseEnd = h.now.Add(h.policy.Window(h.row.Phase()))
	require.LessOrEqual(t, h.row.Attempt, h.policy.MaxAttempts(h.row.Phase(), h.row.MaxAttempts),
		"an attempt beyond the limit")
}

// inspect checks a decision against what the row was when its attempt ended.
func (h *history) inspect(t *rapid.T, o task.Outcome, next task.Transition) {
	rollBack := h.policy.Rollback != nil
	require.False(t, next.State.Running(), "only a claim makes a row run")
	require.True(t, next.EverStarted || !h.row.EverStarted, "everStarted is for ever")
	require.True(t, next.EverStarted || o.NeverStarted)
	require.GreaterOrEqual(t, next.Attempt, 0)
	require.Equal(t, next.State == task.StateSucceeded || next.State == task.StateRolledBack, next.Reason == "")

	switch next.State {
	case task.StateFailed, task.StateCancelled:
		require.False(t, next.EverStarted && rollBack, "it was started, and is not rolled back")
	case task.StatePending:
		require.Zero(t, next.Attempt)
	case task.StateRetryPending:
		require.Positive(t, next.Attempt)
	case task.StateRollbackPending:
		require.True(t, next.EverStarted)
	}
	if h.row.Phase() == task.Run && next.State.Waiting() {
		entering := next.State == task.StateRollbackPending
		require.True(t, entering || !h.row.CancelRequested, "cancelled, and to run again")
		require.True(t, !entering || next.Attempt == 0 && next.Deferrals == 0 && next.Delay == 0)
	}
	h.inspectDelay(t, o, next)
	h.inspectRelease(t, o, next)
}

func (h *history) inspectDelay(t *rapid.T, o task.Outcome, next task.Transition) {
	if !next.State.Waiting() {
		require.Zero(t, next.Delay)
	}
	well := next.State == task.StateSucceeded || next.State == task.StateRolledBack
	require.Equal(t, !well && (o.EndUnknown || o.Verdict == task.Superseded), next.AfterLease)
	if !next.State.Waiting() {
		return
	}
	if next.State.Phase() != h.row.Phase() {
		return
	}
	switch {
	case o.Brief && next.Deferrals > 1:
		require.Positive(t, next.Delay, "again and again without a pause")
		require.LessOrEqual(t, next.Delay, 5*time.Second)
	case o.Verdict == task.Undelivered || o.Verdict == task.Drained:
		require.Zero(t, next.Delay)
	default:
		require.Positive(t, next.Delay)
	}
	if h.row.Phase() == task.Run && !h.row.Deadline.IsZero() {
		require.True(t, h.now.Add(next.Delay).Before(h.row.Deadline), "due when its deadline has passed")
	}
}

func (h *history) inspectRelease(t *rapid.T, o task.Outcome, next task.Transition) {
	away := o.Verdict == task.Deferred || o.Verdict == task.Superseded || o.Brief
	same := next.State.Waiting() && next.State.Phase() == h.row.Phase()
	switch {
	case !same:
		h.sentAway = 0
	case away && next.Attempt < h.row.Attempt:
		h.sentAway++
	case !o.Verdict.Releases():
		require.Equal(t, h.row.Attempt, next.Attempt, "%s counts", o.Verdict)
		h.sentAway = 0
	case !away:
		require.Equal(t, h.row.Attempt-1, next.Attempt, "%s does not count", o.Verdict)
	}
	limit := h.policy.Retry.MaxDeferrals
	if h.row.Phase() == task.Rollback && h.policy.Rollback != nil {
		limit = h.policy.Rollback.Retry.MaxDeferrals
	}
	require.LessOrEqual(t, h.sentAway, limit, "sent away more often than allowed")
}

// settle writes the transition as a store would, and waits until the row is due.
func (h *history) settle(t *rapid.T, next task.Transition) {
	h.now = h.now.Add(next.Delay)
	if next.AfterLease && h.now.Before(h.row.LeaseEnd) {
		h.now = h.row.LeaseEnd
	}
	h.move(t, next.State)
	h.row.Attempt, h.row.Deferrals, h.row.EverStarted = next.Attempt, next.Deferrals, next.EverStarted
	h.row.Fence++
}

func (h *history) move(t *rapid.T, to task.State) {
	require.True(t, h.arrows[arrow{h.row.State, to}], "%s -> %s is not in the diagram", h.row.State, to)
	h.row.State = to
}
