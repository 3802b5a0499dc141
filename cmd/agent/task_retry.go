package main

import "github.com/leasehold/leasehold/internal/ops"

type taskRetryCmd struct {
	ID []taskID `arg:"" help:"Numbers of the tasks."`
	By string   `help:"Who wants it, for those who look." placeholder:"WHO"`
}

// Help gives examples.
func (taskRetryCmd) Help() string {
	return `What has failed, was cancelled or was rolled back waits again ("pending"), with its history and all of its attempts
before it. Anything else stays as it is ("unchanged: already succeeded"). Prints what became of each; exit 1 if one
does not exist, or must not be retried: while another task with its key is live, or its batch is being cancelled or rolled back.

Examples:

    leasehold task retry 4211
    leasehold task retry 4211 4212 --by alice -o json`
}

// Run retries.
func (c taskRetryCmd) Run(a *app) error {
	return a.changeTasks(ops.VerbRetry, c.ID, c.By)
}

type taskRollbackCmd struct {
	ID []taskID `arg:"" help:"Numbers of the tasks."`
	By string   `help:"Who wants it, for those who look, and for the task." placeholder:"WHO"`
}

// Help gives examples.
func (taskRollbackCmd) Help() string {
	return `Undoes what tasks have done, by the rollback of their type ("rollback_pending"). What runs is told to stop first
("cancelling"), and is rolled back when it has; what never started is cancelled. Prints what became of each; exit 1 if one
does not exist, or cannot be rolled back because its type has no rollback.

Examples:

    leasehold task rollback 4211
    leasehold task rollback 4211 4212 --by alice -o json`
}

// Run rolls back.
func (c taskRollbackCmd) Run(a *app) error {
	return a.changeTasks(ops.VerbRollback, c.ID, c.By)
}
