package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

type taskCmd struct {
	List taskListCmd `cmd:"" help:"List tasks, newest first."`
	Show taskShowCmd `cmd:"" help:"Show a task with its history, output and result."`
	Wait taskWaitCmd `cmd:"" help:"Wait until tasks have finished."`

	Cancel   taskCancelCmd   `cmd:"" help:"Call tasks off."`
	Retry    taskRetryCmd    `cmd:"" help:"Have tasks tried again that have failed, or were called off."`
	Rollback taskRollbackCmd `cmd:"" help:"Undo what tasks have done."`

	Why laterCmd `cmd:"" hidden:"" passthrough:""`
}

type taskListCmd struct {
	Type  string            `help:"Only of this type." placeholder:"TYPE"`
	State []string          `help:"Only in these states; may be repeated." placeholder:"STATE"`
	Key   string            `help:"Only with this key." placeholder:"KEY"`
	Label map[string]string `help:"With this label; of several, all must match." placeholder:"NAME=VALUE" mapsep:"none"`
	Batch batchID           `help:"Only of this batch." placeholder:"N"`
	Limit int               `help:"At most so many, 1 to 1000." default:"50" placeholder:"N"`
}

// Help gives examples.
func (taskListCmd) Help() string {
	return `Examples:

    leasehold task list
    leasehold task list --type invoice.send --state failed --limit 10
    leasehold task list --batch 17 --state failed
    leasehold task list --label tenant=acme -o jsonl`
}

// Run lists tasks.
func (c taskListCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	states, err := parseStates(c.State)
	if err != nil {
		return err
	}
	filter := ops.Filter{Type: c.Type, States: states, Key: c.Key, Labels: c.Label, Limit: c.Limit, Batch: task.BatchID(c.Batch)}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		infos, err := s.List(call, filter)
		if err != nil {
			return err
		}
		header := table.Row{"ID", "TYPE", "STATE", "ATTEMPT", "CREATED", "DUE OR FINISHED", "KEY", "BATCH", "ERROR"}
		return printList(a, infos, header, a.taskRow)
	})
}

// parseStates reads the names of states.
func parseStates(names []string) ([]task.State, error) {
	var states []task.State
	for _, name := range names {
		s := task.State(name)
		if !s.Known() {
			all := make([]string, 0, len(task.States()))
			for _, known := range task.States() {
				all = append(all, string(known))
			}
			return nil, usagef("--state %s: there is no such state: use %s", name, strings.Join(all, ", "))
		}
		if !slices.Contains(states, s) {
			states = append(states, s)
		}
	}
	return states, nil
}

// taskRow is a task in a table.
func (a *app) taskRow(i ops.Info) table.Row {
	const most = 60
	second := func(t time.Time) string { return t.UTC().Format(time.RFC3339) } // task show has them to the millisecond
	when := i.RunAt
	if i.FinishedAt != nil {
		when = *i.FinishedAt
	}
	batch := ""
	if i.Batch != 0 {
		batch = strconv.FormatInt(int64(i.Batch), 10)
	}
	return table.Row{
		i.ID, ops.OneLine(i.Type, most), a.state(i.State), i.Attempt, second(i.CreatedAt), second(when),
		ops.OneLine(i.Key, most), batch, ops.OneLine(i.Error, a.errorWidth(most)),
	}
}

// errorWidth is how much of a task's error a table shows: on a terminal, what the other columns leave of its width.
func (a *app) errorWidth(most int) int {
	const others, least = 85, 20
	if width := a.width(); width > 0 {
		return min(max(width-others, least), most)
	}
	return most
}
