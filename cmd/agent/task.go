package main

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type taskCmd struct {
	List taskListCmd `cmd:"" help:"List tasks, newest first."`
	Show taskShowCmd `cmd:"" help:"Show a task with its history, output and result."`
	Why  taskWhyCmd  `cmd:"" help:"Say why a task is not running, or what it does."`
	Wait taskWaitCmd `cmd:"" help:"Wait until tasks have finished."`

	Cancel   taskCancelCmd   `cmd:"" help:"Cancel tasks."`
	Retry    taskRetryCmd    `cmd:"" help:"Retry tasks that failed or were cancelled."`
	Rollback taskRollbackCmd `cmd:"" help:"Roll back tasks."`
}

type taskListCmd struct {
	Type  string            `help:"Only tasks of this type." placeholder:"TYPE"`
	State []string          `help:"Only in this state; may be repeated." placeholder:"STATE"`
	Key   string            `help:"Only tasks with this key." placeholder:"KEY"`
	Label map[string]string `help:"Only with this label; may be repeated, and then all must match." placeholder:"NAME=VALUE" mapsep:"none"`
	Batch batchID           `help:"Only tasks of this batch." placeholder:"N"`
	Limit int               `help:"Maximum number of rows, 1 to 1000." default:"50" placeholder:"N"`

	Before int64 `help:"Only tasks with a lower id: the next page." placeholder:"ID"`
}

// Help gives examples.
func (taskListCmd) Help() string {
	return `A search for what no index has, such as a label, looks through 100,000 tasks at most, and for a moment. Where it ends before the list is
full, a line says how far back it has looked, and with which --before to go on.

Examples:

    leasehold task list
    leasehold task list --type invoice.send --state failed --limit 10
    leasehold task list --batch 17 --state failed
    leasehold task list --label tenant=acme -o jsonl
    leasehold task list --label tenant=acme --before 184221`
}

// Run lists tasks.
func (c taskListCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	if c.Before < 0 {
		return usagef("--before %d: use the id of a task", c.Before)
	}
	states, err := ops.ParseStates(c.State)
	if err != nil {
		return usagef("--state %w", err)
	}
	filter := store.TaskFilter{
		Type: c.Type, States: states, Key: c.Key, Labels: c.Label, Limit: c.Limit, Batch: task.BatchID(c.Batch), Before: task.ID(c.Before),
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		page, err := ops.PageTasks(call, s, filter, 0)
		if err != nil {
			return err
		}
		if a.cli.Output != "table" {
			err = printList(a, page.Tasks, nil, nil)
		} else {
			err = writeColumns(a.out, a.taskColumns(page.Tasks, time.Now()), a.tableWidth())
		}
		if err != nil || page.LookedBack == nil {
			return err
		}
		_, err = fmt.Fprintln(a.err, lookedBack(*page.LookedBack))
		return err
	})
}

// lookedBack says how far a search went, and how to go on.
func lookedBack(b ops.LookedBack) string {
	return fmt.Sprintf("%s; for older ones: --before %d", &b, b.ID)
}
