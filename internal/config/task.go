package config

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of the task block.
const (
	minTimeout = 10 * time.Millisecond
	maxTimeout = 30 * task.Day
	maxLimit   = 1_000_000
	minSpill   = time.Second
)

func taskShape() *shape {
	return &shape{
		name: "task", label: "the name of the type",
		attrs: []string{"aliases", "timeout", "heartbeat", "max_heartbeat", "require_progress", "workers", "limit", "rate", "burst", "deadline",
			"on_failed", "redact", "spill_after"},
		blocks: []string{"retry", "sequence", "check", "webhook", "command", "rollback", "tenant"},
		called: calledInTask(),
	}
}

// task decodes a task block; nil where it has no name. agentWorkers is the default of workers.
func (b *block) task(agentWorkers int) *task.Type {
	if len(b.label) != 1 {
		return nil
	}
	name := b.label[0]
	if err := task.CheckTypeName(name); err != nil {
		b.l.fail(b.rng, "Invalid name of a type", "%s.", err)
	}
	b.out.header = "task " + quote(name)
	t := &task.Type{
		Name:    name,
		Aliases: b.strs("aliases", nil, task.CheckTypeName),
		Source:  place(b.rng),
	}
	t.Policy.Timeout = b.length("timeout", task.DefaultTimeout, minTimeout, maxTimeout)
	p := &t.Policy
	p.Heartbeat, p.MaxHeartbeat, p.RequireProgress = b.liveness(p.Timeout)
	if agentWorkers > 0 {
		t.Workers = b.num("workers", agentWorkers, 1, maxWorkers)
		b.ofAgent("workers")
	} else if b.attr("workers") != nil {
		t.Workers = b.num("workers", 1, 1, maxWorkers)
	}
	t.Limit, t.Rate, t.Burst = b.bounds()
	b.tenant(t)
	if d, ok := b.maybeLength("deadline", -1, minTimeout, task.MaxDuration); ok {
		t.Policy.Deadline = max(d, 0)
	}
	if d, ok := b.maybeLength("spill_after", -1, minSpill, task.MaxDuration); ok {
		t.SpillAfter = max(d, 0)
	}
	p.OnFailed = b.onFailed(t)
	t.Redact = b.redact()
	p.Retry = b.retry(retryShape())
	b.sequence(t)
	t.Check, p.Check, p.Stop = b.check(t.Workers)
	var stop time.Duration
	t.Target, stop, p.Async = b.target(webhookShape(), t.Workers)
	p.Stop = max(p.Stop, stop)
	b.warnOfBatch(t.Target, p.Heartbeat)
	t.Rollback, p.Rollback = b.rollback(t.Workers)
	return t
}

// target decodes the one target of a task, a check or a rollback, and how long stopping it takes; async: an answer of 202
// means that the task goes on. workers is as in command.
func (b *block) target(webhooks *shape, workers int) (_ task.Target, stop time.Duration, async bool) {
	webhook, command := b.child("webhook"), b.child("command")
	switch {
	case webhook == nil && command == nil:
		b.l.fail(b.rng, "No target",
			"A %s needs a webhook block, for an HTTP request, or a command block, for a subprocess.", b.shape.name)
	case webhook != nil && command != nil:
		b.l.fail(command.DefRange(), "Two targets", "A %s has only one target; a webhook block is at %s.",
			b.shape.name, place(webhook.DefRange()))
	case webhook != nil:
		sub := b.block(webhook, webhooks)
		w := sub.webhook()
		b.out.blocks = append(b.out.blocks, sub.out)
		return w, task.StopLength(w.CancelGrace), w.Async
	default:
		sub := b.block(command, commandShape())
		c := sub.command(workers)
		b.out.blocks = append(b.out.blocks, sub.out)
		return c, task.StopLength(c.StopGrace), false
	}
	return nil, 0, false
}
