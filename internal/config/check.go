package config

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

func checkShape() *shape {
	return &shape{
		name: "check", attrs: []string{"timeout"}, blocks: []string{"webhook", "command"},
		never: map[string]string{
			"heartbeat": "A check has only a timeout; it does not ping.",
			"retry":     "A failed check is a failed attempt: the task's own retry block applies.",
		},
	}
}

// check decodes the check block in b: its target (nil: there is none), its timeout, and how long stopping it takes.
func (b *block) check(workers int) (target task.Target, timeout, stop time.Duration) {
	hb := b.child("check")
	if hb == nil {
		return nil, 0, 0
	}
	sub := b.block(hb, checkShape())
	b.out.blocks = append(b.out.blocks, sub.out)
	timeout = sub.length("timeout", task.DefaultCheck, minTimeout, maxTimeout)
	webhooks := webhookShape()
	webhooks.attrs = slices.DeleteFunc(webhooks.attrs, func(name string) bool { return name == "async" })
	webhooks.never = map[string]string{"async": "A check ends with its response, so it cannot continue without a connection."}
	webhooks.withoutBatch("A check is asked for each task, before the task is sent.")
	target, stop, _ = sub.target(webhooks, workers)
	return target, timeout, stop
}
