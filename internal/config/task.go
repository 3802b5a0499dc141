package config

import (
	"fmt"
	"regexp"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of the task block.
const (
	minTimeout = 10 * time.Millisecond
	maxTimeout = 30 * day
)

func taskShape() *shape {
	return &shape{
		name: "task", label: "the name of the type",
		attrs:  []string{"aliases", "timeout", "heartbeat", "max_heartbeat", "require_progress", "workers", "deadline"},
		blocks: []string{"retry", "webhook", "command"},
		later:  []string{"limit", "spill_after", "check", "rollback"},
	}
}

// typeName is what types are called: it stands in URLs, headers, metrics and logs.
var typeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$`)

func checkType(s string) error {
	if !typeName.MatchString(s) {
		return fmt.Errorf("%q: a type is named with letters, digits and . _ - : /, at most 128 of them, "+
			"and starts with a letter or digit", s)
	}
	return nil
}

// task decodes a task block; nil where it has no name. agentWorkers is the default of workers.
func (b *block) task(agentWorkers int) *task.Type {
	if len(b.label) != 1 {
		return nil
	}
	name := b.label[0]
	if err := checkType(name); err != nil {
		b.l.fail(b.rng, "Invalid name of a type", "%s.", err)
	}
	b.out.header = "task " + quote(name)
	t := &task.Type{
		Name:    name,
		Aliases: b.strs("aliases", nil, checkType),
		Source:  place(b.rng),
	}
	t.Policy.Timeout = b.length("timeout", task.DefaultTimeout, minTimeout, maxTimeout)
	b.liveness(&t.Policy)
	if agentWorkers > 0 {
		t.Workers = b.num("workers", agentWorkers, 1, maxWorkers)
	} else if b.attr("workers") != nil {
		t.Workers = b.num("workers", 1, 1, maxWorkers)
	}
	if d, ok := b.maybeLength("deadline", -1, minTimeout, maxDuration); ok {
		t.Policy.Deadline = max(d, 0)
	}
	t.Policy.Retry = b.retry()
	t.Target = b.target(&t.Policy)
	return t
}

// target decodes the one target of a task and sets how long stopping it takes.
func (b *block) target(p *task.Policy) task.Target {
	webhook, command := b.child("webhook"), b.child("command")
	switch {
	case webhook == nil && command == nil:
		b.l.fail(b.rng, "No target",
			"A task needs a webhook block, for an HTTP request, or a command block, for a subprocess.")
	case webhook != nil && command != nil:
		b.l.fail(command.DefRange(), "Two targets", "A task has one target; a webhook block stands at %s.",
			place(webhook.DefRange()))
	case webhook != nil:
		sub := b.block(webhook, webhookShape())
		w := sub.webhook()
		b.out.blocks = append(b.out.blocks, sub.out)
		p.Stop, p.Async = task.StopLength(w.CancelGrace), w.Async
		return w
	default:
		sub := b.block(command, commandShape())
		c := sub.command()
		b.out.blocks = append(b.out.blocks, sub.out)
		p.Stop = task.StopLength(c.StopGrace)
		return c
	}
	return nil
}
