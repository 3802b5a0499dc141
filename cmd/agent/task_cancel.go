package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

type taskCancelCmd struct {
	ID []taskID `arg:"" help:"Numbers of the tasks."`
	By string   `help:"Who wants it, for those who look, and for the task." placeholder:"WHO"`
}

// Help gives examples.
func (taskCancelCmd) Help() string {
	return `What waits never starts. What runs is told to stop ("cancelling"), and may still finish; what was started and has a
rollback is rolled back. What has finished stays as it is. Prints what became of each; exit 1 if one does not exist.

Examples:

    leasehold task cancel 4211
    leasehold task cancel 4211 4212 --by alice -o json`
}

// Run cancels.
func (c taskCancelCmd) Run(a *app) error {
	ids := make([]task.ID, 0, len(c.ID))
	for _, id := range c.ID {
		ids = append(ids, task.ID(id))
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		reports, err := ops.CancelAll(ctx, callBound{s}, ids, c.By)
		var missing []task.ID
		for _, r := range reports {
			if r.Became == "" {
				missing = append(missing, r.ID)
			}
		}
		if len(reports) > 0 || err == nil {
			if broken := printList(a, reports, table.Row{"ID", "BECAME"}, a.cancelRow); broken != nil {
				return broken
			}
		}
		switch {
		case err != nil:
			return err
		case len(missing) == 1:
			return fmt.Errorf("task %d: %w (or its retention is over)", missing[0], ops.ErrNoTask)
		case len(missing) > 1:
			return fmt.Errorf("%d of %d tasks do not exist (or their retention is over)", len(missing), len(ids))
		}
		return nil
	})
}

// cancelRow is a report in a table.
func (a *app) cancelRow(r ops.Report) table.Row {
	if r.Error != "" {
		return table.Row{r.ID, r.Error}
	}
	return table.Row{r.ID, a.state(task.State(r.Became))}
}

// callBound bounds each call by itself, of however many there are.
type callBound struct{ ops.Canceller }

// Cancel calls one task off.
func (c callBound) Cancel(ctx context.Context, id task.ID, by string) (ops.Cancelled, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.Canceller.Cancel(call, id, by)
}
