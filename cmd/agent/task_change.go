package main

import (
	"context"

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
func (a *app) changeTasks(verb ops.Verb, ids []taskID, by string) error {
	return a.changeTasksWith(ops.TaskChange{Verb: verb, By: by}, ids)
}

// changeTasksWith is changeTasks for a change that has more to it.
func (a *app) changeTasksWith(change ops.TaskChange, ids []taskID) error {
	change.Before = a.cli.Output == "table" // where it is shown
	return a.withTables(func(ctx context.Context, s dataStore) error {
		reports, err := ops.ChangeTasks(ctx, s, numbers(ids), change)
		if len(reports) > 0 || err == nil {
			if broken := printList(a, reports, table.Row{"ID", "BECAME"}, a.changeRow); broken != nil {
				return broken
			}
		}
		if err != nil {
			return err
		}
		return ops.ReportsError(reports)
	})
}

// changeRow is a report in a table.
func (a *app) changeRow(r ops.Report) table.Row {
	switch {
	case r.Error != "":
		return table.Row{r.ID, ops.Printable(r.Error)}
	case r.Unchanged():
		return table.Row{r.ID, "unchanged: already " + a.state(r.Before)}
	}
	return table.Row{r.ID, a.state(task.State(r.Became)) + ops.Printable(ops.RetriedWith(r, mostShown))}
}
