package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type orphansCmd struct {
	List orphansListCmd `cmd:"" default:"withargs" help:"List the types of waiting tasks that no running agent declares."`

	Move   orphansMoveCmd   `cmd:"" help:"Give the waiting tasks of a type that no running agent declares another type."`
	Cancel orphansCancelCmd `cmd:"" help:"Cancel the waiting tasks of a type that no running agent declares."`
}

type orphansListCmd struct{}

// Help gives examples.
func (orphansListCmd) Help() string {
	return `Tasks whose type no running agent declares, neither as the name of a task type nor as an alias, wait until one does. OLDEST is when the
oldest of them was enqueued. DECLARED is when an agent last loaded a task type of the name, and BY which agent; AS is the task type
that had it as an alias. Agents with workers = 0 do not count. WAITING counts up to 10,000 tasks of a type, and fewer where there are several
types: 10000+ means that there are more, and that OLDEST is of those that were counted.

Examples:

    leasehold orphans
    leasehold orphans -o jsonl`
}

// Run lists orphans.
func (orphansListCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		all, err := s.Orphans(call)
		if err != nil {
			return err
		}
		header := table.Row{"TYPE", "WAITING", "RUNNING", "OLDEST", "DECLARED", "BY", "AS"}
		if err := printList(a, all.List, header, orphanRow); err != nil {
			return err
		}
		if err := a.suggestTypes(call, s, all.List); err != nil || !all.More {
			return err
		}
		_, err = fmt.Fprintln(a.err, "there may be more types: not all were looked at")
		return err
	})
}

// suggestTypes says below a list of orphans which declared type each may have been meant to have.
func (a *app) suggestTypes(ctx context.Context, s dataStore, orphans []store.OrphanType) error {
	if a.cli.Output != "table" || len(orphans) == 0 {
		return nil
	}
	agents, err := s.ListAgents(ctx, false)
	if err != nil {
		return err
	}
	return a.people(func(w io.Writer) error {
		for _, o := range orphans {
			meant := ops.DidYouMean(o.Type, agents)
			if meant == "" {
				continue
			}
			if _, err := fmt.Fprintf(w, "type %s%s\n", ops.OneLine(o.Type, store.MaxType), meant); err != nil {
				return err
			}
		}
		return nil
	})
}

// lowerBound is a number of which there are more, and a number in a table.
type lowerBound int64

func (n lowerBound) String() string { return fmt.Sprintf("%d+", int64(n)) }

// atLeast is a number; where there are more, with a "+".
func atLeast(n int64, more bool) any {
	if more {
		return lowerBound(n)
	}
	return n
}

// orphanRow is a type in a table.
func orphanRow(o store.OrphanType) table.Row {
	const most = 60
	declared, as := "", ""
	if o.DeclaredAt != nil {
		declared = shortTime(*o.DeclaredAt)
	}
	if o.DeclaredAs != o.Type {
		as = ops.OneLine(o.DeclaredAs, most)
	}
	return table.Row{
		ops.OneLine(o.Type, most), atLeast(o.Waiting, o.Capped), numberOrNothing(o.Running), shortTime(o.Oldest), declared,
		ops.OneLine(o.DeclaredBy, most), as,
	}
}
