package task

import (
	"fmt"
	"strings"
)

// explain returns how the attempt ended, human-readable: "attempt 2 of 3 timed out: ran longer than 20s".
func (d *decision) explain() string {
	var b strings.Builder
	if d.task.Phase() == Rollback {
		b.WriteString("rollback ")
	}
	how := ended(d.outcome.Verdict)
	if d.outcome.Brief || d.outcome.Shared {
		how = "was released"
	}
	fmt.Fprintf(&b, "attempt %d of %d %s", d.task.Attempt, d.limit, how)
	if d.counted && d.outcome.Verdict.Releases() {
		fmt.Fprintf(&b, " (%d times in a row, and only %d are free)", d.deferrals, d.retry.MaxDeferrals)
	}
	if d.outcome.Error != "" {
		b.WriteString(": " + d.outcome.Error)
	}
	return b.String()
}

// ended is a verdict as the predicate of "attempt 1 of 3 …".
func ended(v Verdict) string {
	switch v {
	case Rejected:
		return "was rejected"
	case TimedOut:
		return "timed out"
	case Lost:
		return "was lost"
	case Cancelled:
		return "was cancelled"
	case Deferred:
		return "was asked to come later"
	case Superseded:
		return "was superseded by a newer one"
	case Undelivered:
		return "was not delivered"
	case Drained:
		return "was stopped by the agent"
	}
	return string(v) // succeeded, failed, stalled
}
