package main

import "github.com/leasehold/leasehold/internal/ops"

type taskCancelCmd struct {
	ID []taskID `arg:"" optional:"" help:"Ids of the tasks."`
	By string   `help:"Who requests it; recorded, and passed to running tasks." placeholder:"WHO"`

	bulkChange
}

// Help gives examples.
func (taskCancelCmd) Help() string {
	return `Waiting tasks never start. Running tasks are asked to stop ("cancelling"), and may still finish. Tasks that were started and
have a rollback are rolled back. Finished tasks do not change ("unchanged: already succeeded"). Prints the resulting state of
each task. Exit 1 if one does not exist.
` + bulkHelp + `
Examples:

    leasehold task cancel 4211
    leasehold task cancel 4211 4212 --by alice -o json
    leasehold task cancel --type invoice.send --label tenant=acme --dry-run
    leasehold task cancel --type invoice.send --label tenant=acme --yes \
        --reason "acme has left"`
}

// Run cancels.
func (c taskCancelCmd) Run(a *app) error {
	return c.change(a, ops.VerbCancel, c.ID, c.By)
}
