package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type pauseCmd struct {
	Type   string `arg:"" optional:"" help:"Type of tasks. Default: list what is paused."`
	Reason string `help:"Why; people are told." placeholder:"TEXT"`
	By     string `help:"Who requests it; recorded." placeholder:"WHO"`
}

// Help gives examples.
func (pauseCmd) Help() string {
	return `All agents claim no tasks of the type within a second, neither to run nor to roll back, until it is resumed. Running tasks go
on. Tasks can be enqueued meanwhile, and wait.

Examples:

    leasehold pause invoice.send --reason "the bank is down" --by alice
    leasehold pause`
}

// Run pauses a type, or lists those that are.
func (c pauseCmd) Run(a *app) error {
	if c.Type == "" {
		if c.Reason != "" || c.By != "" {
			return usagef("--reason and --by need the TYPE to pause")
		}
		return c.list(a)
	}
	return setPaused(a, c.Type, true, c.Reason, c.By)
}

// list lists the types that are paused.
func (pauseCmd) list(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := s.Pauses(call)
		if err != nil {
			return err
		}
		return printList(a, list, table.Row{"TYPE", "PAUSED", "BY", "REASON"}, func(p store.TypePause) table.Row {
			const most = 60
			return table.Row{ops.OneLine(p.Type, most), shortTime(p.At), ops.OneLine(p.By, most), ops.OneLine(p.Reason, most)}
		})
	})
}

type resumeCmd struct {
	Type string `arg:"" help:"Type of tasks."`
	By   string `help:"Who requests it; recorded." placeholder:"WHO"`
}

// Help gives examples.
func (resumeCmd) Help() string {
	return "Agents claim tasks of the type again within a second.\n\nExamples:\n\n    leasehold resume invoice.send --by alice"
}

// Run resumes a type.
func (c resumeCmd) Run(a *app) error { return setPaused(a, c.Type, false, "", c.By) }

// setPaused pauses or resumes a type, and prints what became of it.
func setPaused(a *app, typ string, pause bool, reason, by string) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		p, err := ops.SetPaused(call, s, typ, pause, reason, by)
		if err != nil {
			return err
		}
		takers, err := s.Takers(call, typ)
		if err != nil {
			return err
		}
		return a.print(p, func(w io.Writer) error {
			text := "resumed"
			switch {
			case p.Pause != nil:
				text = "paused " + ops.PausedSince(p.Pause)
			case !p.Changed:
				text = "not paused"
			}
			if p.Paused && !p.Changed {
				text = "already " + text
			}
			if p.Paused && takers.OfType == 0 {
				text += "; no running agent declares it"
			}
			_, err := fmt.Fprintf(w, "type %s: %s\n", ops.OneLine(typ, 255), text)
			return err
		})
	})
}
