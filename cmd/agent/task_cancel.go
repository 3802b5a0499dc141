package main

import "github.com/leasehold/leasehold/internal/ops"

type taskCancelCmd struct {
	ID []taskID `arg:"" help:"Ids of the tasks."`
	By string   `help:"Who requests it; recorded, and passed to running tasks." placeholder:"WHO"`
}

// Help gives examples.
func (taskCancelCmd) Help() string {
	return `Waiting tasks never start. Running tasks are asked to stop ("cancelling"), and may still finish. Tasks that were started and
have a rollback are rolled back. Finished tasks do not change ("unchanged: already succeeded"). Prints the resulting state of
each task. Exit 1 if one does not exist.

Examples:

    leasehold task cancel 4211
    leasehold task cancel 4211 4212 --by alice -o json`
}

// Run cancels.
func (c taskCancelCmd) Run(a *app) error {
	return a.changeTasks(ops.VerbCancel, c.ID, c.By)
}
