package main

import "github.com/leasehold/leasehold/internal/ops"

type taskCancelCmd struct {
	ID []taskID `arg:"" help:"Numbers of the tasks."`
	By string   `help:"Who wants it, for those who look, and for the task." placeholder:"WHO"`
}

// Help gives examples.
func (taskCancelCmd) Help() string {
	return `What waits never starts. What runs is told to stop ("cancelling"), and may still finish; what was started and has a
rollback is rolled back. What has finished stays as it is ("unchanged: already
succeeded"). Prints what became of each; exit 1 if one does not exist.

Examples:

    leasehold task cancel 4211
    leasehold task cancel 4211 4212 --by alice -o json`
}

// Run cancels.
func (c taskCancelCmd) Run(a *app) error {
	return a.changeTasks(ops.VerbCancel, c.ID, c.By)
}
