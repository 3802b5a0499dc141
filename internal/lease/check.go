package lease

import (
	"context"

	"github.com/leasehold/leasehold/internal/task"
)

// Check is the part of the lease in which the attempt's check is asked: it ends when the lease does, or on its own with
// the check's timeout, and has as long to stop. Its owner closes it, and the lease goes on. It keeps nothing alive: no
// pings are due meanwhile, and what comes is not passed on.
func (l *Lease) Check() *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &Lease{
		task: l.task, policy: l.policy, phase: task.Check, clock: l.clock, claimed: l.claimed, presence: l.presence, end: l.end,
		traces: l.traces, flags: l.flags, after: l.after,
	}
	c.ctx, c.cancel = context.WithCancelCause(l.ctx)
	l.checked, l.isCheck, l.ahead = l.clock.Now(), true, 0
	return c
}
