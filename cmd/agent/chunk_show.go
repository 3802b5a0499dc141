package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type chunksShowCmd struct {
	Name  string `arg:"" help:"Name of the plan."`
	Limit int    `help:"Maximum number of passes, the newest first, 1 to 1000." default:"20" placeholder:"N"`
}

// Help gives examples.
func (chunksShowCmd) Help() string {
	return "Examples:\n\n    leasehold chunks show events\n    leasehold chunks show events -o json"
}

// shownChunks writes a plan with its newest passes.
type shownChunks struct{ ops.ChunkDetail }

// Run shows the plan.
func (c chunksShowCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		d, err := ops.ShowChunks(call, s, c.Name, c.Limit)
		if err != nil {
			return err
		}
		return a.print(d, shownChunks{d}.write)
	})
}

// write writes all that is known of a plan.
func (s shownChunks) write(w io.Writer) error {
	t := planTable(s.ChunkPlanInfo)
	if s.Waits != nil {
		t.AppendRow(table.Row{"waits", ops.OneLine(s.Waits.Why, 400) + " (says " + ops.OneLine(s.Waits.Agent, 40) + ")"})
	}
	if err := writeTable(w, t); err != nil {
		return err
	}
	if len(s.Failed) > 0 {
		if err := writeTitled(w, "Failed ranges", failedTable(s.Failed)); err != nil {
			return err
		}
	}
	if len(s.Passes) == 0 {
		return nil
	}
	return writeTitled(w, "Passes", passTable(s.Passes))
}

// writeTitled writes a table below others.
func writeTitled(w io.Writer, title string, t *grid) error {
	if _, err := fmt.Fprintf(w, "\n%s:\n", title); err != nil {
		return err
	}
	return writeTable(w, t)
}

// planTable is a plan, one line for each thing that is known of it.
func planTable(i *store.ChunkPlanInfo) *grid {
	const most = 400
	t := newTable(nil)
	line := func(name, value string) {
		if value != "" {
			t.AppendRow(table.Row{name, ops.OneLine(value, most)})
		}
	}
	line("chunks", i.Name)
	line("state", string(i.State))
	line("note", chunksNote(i))
	line("task", i.Task)
	line("table", i.Table)
	line("key", i.Key)
	line("source", compactJSON(i.Source))
	line("ahead", fmt.Sprint(i.Ahead))
	line("follow", durationOrNothing(i.Follow))
	line("target", durationOrNothing(i.Target))
	line("size", fmt.Sprint(i.Size))
	if i.PerRow > 0 {
		line("rate", fmt.Sprintf("%.0f rows/s for each chunk", 1/i.PerRow))
	}
	line("done rows", fmt.Sprint(i.Done))
	line("live chunks", fmt.Sprint(i.Live))
	line("held ranges", numberOrNothing(i.Held))
	line("planned up to", keyOr(i.High, ""))
	line("created", ops.Time(i.CreatedAt))
	line("paused", ops.Time(i.PausedAt))
	line("paused by", i.PausedBy)
	return t
}

// passTable lists passes.
func passTable(passes []ops.ChunkPass) *grid {
	list := newTable(table.Row{"PASS", "OF", "FROM", "THROUGH", "CHUNKS", "ROWS", "BATCH", "STATE", "DONE", "FAILED",
		"ROWS/S", "TIME LEFT", "SIZES", "BEGAN", "PLANNED"})
	for n := range passes {
		p := &passes[n]
		of := "what is new"
		if p.Whole {
			of = "the table"
		}
		list.AppendRow(table.Row{
			p.Pass, of, keyOr(p.From, "its begin"), keyOr(p.Through, ""), p.Chunks, p.Rows, numberOrNothing(int64(p.Batch)), p.State,
			fmt.Sprintf("%d/%d", p.Total-p.Live, p.Total), numberOrNothing(p.Failed), rateOrNothing(p.Rate), durationOrNothing(p.Left),
			sizesOf(p.Sizes), ops.Time(p.BeganAt), ops.Time(p.SealedAt),
		})
	}
	return list
}

// rateOrNothing writes a rate; "" for 0.
func rateOrNothing(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f", perSecond)
}

// sizesOf writes how the size of chunks went, in their order, the newest at the end.
func sizesOf(sizes []int) string {
	const most = 4
	var texts []string
	if n := len(sizes); n > most {
		sizes, texts = sizes[n-most:], []string{"…"}
	}
	for _, size := range sizes {
		texts = append(texts, fmt.Sprint(size))
	}
	return strings.Join(texts, " → ")
}

// failedTable lists ranges that failed, with the task of each.
func failedTable(failed []ops.FailedRange) *grid {
	const most = 20
	list := newTable(table.Row{"AFTER", "THROUGH", "ROWS", "TASK", "PASSES", "NOTE"})
	for n := range failed[:min(len(failed), most)] {
		f := &failed[n]
		note := "the next pass plans it again, if the plan follows its table"
		if f.Held {
			note = "held: `leasehold chunks retry` runs it again"
		}
		list.AppendRow(table.Row{keyOr(f.After, "its begin"), keyOr(f.Through, ""), f.Rows, f.Task, f.Passes, note})
	}
	if n := len(failed) - most; n > 0 {
		list.AppendRow(table.Row{fmt.Sprintf("and %d more", n)})
	}
	return list
}
