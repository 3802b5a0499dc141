package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

type taskWhyCmd struct {
	ID taskID `arg:"" help:"Id of the task."`
}

// Help gives examples.
func (taskWhyCmd) Help() string {
	return `Says the one reason why the task is not running: not due, paused, no agent that declares its type, all slots taken, a limit, a
lock, its sequence, a target that is out of reach, and so on; then what else would keep it from starting. Of a running task it
says where it runs and when its last heartbeat came, of a finished one how each attempt ended.

Examples:

    leasehold task why 4211
    leasehold task why 4211 -o json`
}

// Run explains the task.
func (c taskWhyCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		e, err := ops.Explain(call, s, task.ID(c.ID))
		if err != nil {
			return err
		}
		return a.print(e, func(w io.Writer) error { return a.explain(w, e) })
	})
}

// explain writes an explanation as sentences.
func (a *app) explain(w io.Writer, e *ops.Explanation) error {
	const most = 600
	var b strings.Builder
	line := func(indent string, r *ops.Reason) {
		fmt.Fprintf(&b, "%s%s\n", indent, ops.OneLine(r.Text, most))
		if r.Remedy != "" {
			fmt.Fprintf(&b, "%s  remedy: %s\n", indent, ops.OneLine(r.Remedy, most))
		}
		if r.Starts != nil && r.Kind != ops.WhyNotDue {
			fmt.Fprintf(&b, "%s  may start about %s\n", indent, ops.Time(*r.Starts))
		}
	}
	fmt.Fprintf(&b, "task %d, %s, is %s\n", e.ID, ops.OneLine(e.Type, most), a.state(e.State))
	line("", &e.Reason)
	if len(e.Also) > 0 {
		b.WriteString("\nand besides\n")
	}
	for i := range e.Also {
		line("  ", &e.Also[i])
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return showHistory(w, e.History)
}
