package config

import (
	"slices"

	"github.com/leasehold/leasehold/internal/task"
)

func rollbackShape() *shape {
	return &shape{
		name:   "rollback",
		attrs:  []string{"timeout", "heartbeat", "max_heartbeat", "require_progress"},
		blocks: []string{"retry", "webhook", "command"},
		never: map[string]string{
			"deadline": "A rollback has no deadline: a partial rollback is worse than a late one.",
			"check":    "A rollback has no check: it must be idempotent, and work when the run did nothing.",
		},
	}
}

// rollback decodes the rollback block in b; nil where there is none.
func (b *block) rollback(workers int) (task.Target, *task.RollbackPolicy) {
	hb := b.child("rollback")
	if hb == nil {
		return nil, nil
	}
	sub := b.block(hb, rollbackShape())
	b.out.blocks = append(b.out.blocks, sub.out)
	u := &task.RollbackPolicy{Timeout: sub.length("timeout", task.DefaultTimeout, minTimeout, maxTimeout)}
	u.Heartbeat, u.MaxHeartbeat, u.RequireProgress = sub.liveness(u.Timeout)
	retries := retryShape()
	retries.attrs = slices.DeleteFunc(retries.attrs, func(name string) bool { return name == "on" })
	retries.never = map[string]string{"on": "A rollback is retried after every outcome except a rejection."}
	u.Retry = sub.retry(retries)
	var target task.Target
	target, u.Stop, u.Async = sub.target(webhookShape(), workers)
	sub.warnOfBatch(target, u.Heartbeat)
	return target, u
}
