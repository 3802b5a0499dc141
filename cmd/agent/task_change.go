package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// numbers are the tasks that a command line names.
func numbers(ids []taskID) []task.ID {
	out := make([]task.ID, 0, len(ids))
	for _, id := range ids {
		out = append(out, task.ID(id))
	}
	return out
}

// changeTasks changes tasks one by one, and prints what became of each. What must not be, or does not exist, makes it
// fail, once all have been tried.
func (a *app) changeTasks(change func(context.Context, ops.Operator) ([]ops.Report, error)) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		bound := callBound{store: s}
		if a.cli.Output == "table" { // where it is shown
			bound.before = make(map[task.ID]task.State)
		}
		reports, err := change(ctx, bound)
		if len(reports) > 0 || err == nil {
			row := func(r ops.Report) table.Row { return a.changeRow(r, bound.before[r.ID]) }
			if broken := printList(a, reports, table.Row{"ID", "BECAME"}, row); broken != nil {
				return broken
			}
		}
		if err != nil {
			return err
		}
		return leftOver(reports)
	})
}

// changeRow is a report in a table. before is how the task stood; "": not known.
func (a *app) changeRow(r ops.Report, before task.State) table.Row {
	switch {
	case r.Error != "":
		return table.Row{r.ID, ops.Printable(r.Error)}
	case before != "" && task.State(r.Became) == before:
		return table.Row{r.ID, "unchanged: already " + a.state(before)}
	}
	return table.Row{r.ID, a.state(task.State(r.Became))}
}

// leftOver is the error for the tasks of which nothing became; nil: there is none.
func leftOver(reports []ops.Report) error {
	var missing, refused []ops.Report
	for _, r := range reports {
		switch {
		case r.Missing:
			missing = append(missing, r)
		case r.Error != "":
			refused = append(refused, r)
		}
	}
	switch {
	case len(missing)+len(refused) == 0:
		return nil
	case len(missing) == 1 && len(refused) == 0:
		return fmt.Errorf("task %d: %w (or its retention is over)", missing[0].ID, ops.ErrNoTask)
	case len(refused) == 0:
		return fmt.Errorf("%d of %d tasks do not exist (or their retention is over)", len(missing), len(reports))
	case len(refused) == 1 && len(missing) == 0:
		return fmt.Errorf("task %d: %s", refused[0].ID, refused[0].Error)
	case len(missing) == 0:
		return fmt.Errorf("%d of %d tasks were not changed", len(refused), len(reports))
	}
	return fmt.Errorf("%d of %d tasks were not changed, and %d do not exist", len(refused), len(reports), len(missing))
}

// callBound bounds each call by itself, of however many there are.
type callBound struct {
	store  dataStore
	before map[task.ID]task.State // gets how each task stood before its call; nil: that is not asked for
}

// Cancel calls one task off.
func (c callBound) Cancel(ctx context.Context, id task.ID, by string) (ops.Became, error) {
	return c.oneCall(ctx, id, by, c.store.Cancel)
}

// Retry revives one task.
func (c callBound) Retry(ctx context.Context, id task.ID, by string) (ops.Became, error) {
	return c.oneCall(ctx, id, by, c.store.Retry)
}

// Rollback undoes one task.
func (c callBound) Rollback(ctx context.Context, id task.ID, by string) (ops.Became, error) {
	return c.oneCall(ctx, id, by, c.store.Rollback)
}

func (c callBound) oneCall(
	ctx context.Context, id task.ID, by string, change func(context.Context, task.ID, string) (ops.Became, error),
) (ops.Became, error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if c.before != nil {
		if info, err := c.store.Get(call, id); err == nil { // the change itself says what is wrong with the store
			c.before[id] = info.State
		}
	}
	return change(call, id, by)
}
