package main

import (
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type taskRetryCmd struct {
	ID []taskID `arg:"" optional:"" help:"Ids of the tasks."`
	By string   `help:"Who requests it; recorded." placeholder:"WHO"`

	Payload *string `help:"Retry one task with another payload: JSON, @FILE, or - for standard input." placeholder:"JSON"`

	bulkChange
}

// Help gives examples.
func (taskRetryCmd) Help() string {
	return `Tasks that failed, were cancelled or were rolled back return to waiting ("pending"), with their history and a full number of
attempts. Tasks that waited for one, and were cancelled because it did not succeed, wait for it again. The output names those that
cannot, because their key is taken or their batch has ended. Other tasks do not change ("unchanged: already succeeded"). Prints
the resulting state of each task. Exit 1 if one does not exist, or cannot be retried because another task with its key is live or
its batch is being cancelled or rolled back.

With --payload the task gets another payload, which it keeps; what it was is not. Then exit 1, too, if the task is in another state or is
a chunk of a plan. Exit 2 if the payload is not JSON or too large.
` + bulkHelp + `
Examples:

    leasehold task retry 4211
    leasehold task retry 4211 --payload '{"invoice": 8}'
    leasehold task retry 4211 4212 --by alice -o json
    leasehold task retry --type invoice.send --state failed --since 2h --dry-run
    leasehold task retry --error-signature "answered 502" --since 2h --yes`
}

// Run retries.
func (c taskRetryCmd) Run(a *app) error {
	if c.Payload == nil {
		return c.change(a, ops.VerbRetry, c.ID, c.By)
	}
	if f, err := c.filter(); err != nil || len(c.ID) != 1 || !f.Empty() || c.Change != 0 {
		return usagef("--payload is for one task, named by its id")
	}
	payload, err := readDocument("--payload", c.Payload, a.in)
	if err == nil {
		err = store.CheckPayload(payload)
	}
	if err != nil {
		return err
	}
	return a.changeTasksWith(ops.TaskChange{Verb: ops.VerbRetry, By: c.By, Payload: payload}, c.ID)
}

type taskRollbackCmd struct {
	ID []taskID `arg:"" optional:"" help:"Ids of the tasks."`
	By string   `help:"Who requests it; recorded, and passed to running tasks." placeholder:"WHO"`

	bulkChange
}

// Help gives examples.
func (taskRollbackCmd) Help() string {
	return `Runs the rollback of each task's type ("rollback_pending"). Running tasks are first asked to stop ("cancelling"), and
are rolled back once they have ended. Tasks that never started are cancelled. Prints the resulting state of each task.
Exit 1 if one does not exist, or cannot be rolled back because its type has no rollback.
` + bulkHelp + `
Examples:

    leasehold task rollback 4211
    leasehold task rollback 4211 4212 --by alice -o json
    leasehold task rollback --type invoice.send --state succeeded --yes \
        --since 2026-11-20T08:00:00Z`
}

// Run rolls back.
func (c taskRollbackCmd) Run(a *app) error {
	return c.change(a, ops.VerbRollback, c.ID, c.By)
}
