package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type chunksCmd struct {
	List chunksListCmd `cmd:"" help:"List plans by name."`
	Show chunksShowCmd `cmd:"" help:"Show a plan with its passes."`

	Pause    chunksPauseCmd    `cmd:"" help:"Plan no more chunks, until it is resumed."`
	Resume   chunksResumeCmd   `cmd:"" help:"Plan again, after a pause or a cancellation."`
	Cancel   chunksCancelCmd   `cmd:"" help:"Pause a plan, and cancel the chunks of a pass."`
	Retry    chunksRetryCmd    `cmd:"" help:"Retry the failed chunks of a pass."`
	Rollback chunksRollbackCmd `cmd:"" help:"Pause a plan, and roll back the chunks of a pass."`

	Verify laterCmd `cmd:"" hidden:"" passthrough:""`
}

type chunksListCmd struct {
	From  string `help:"Only plans from this name on." placeholder:"NAME"`
	Limit int    `help:"Maximum number of rows, 1 to 1000." default:"1000" placeholder:"N"`
}

// Help gives examples.
func (chunksListCmd) Help() string {
	return "Examples:\n\n    leasehold chunks list\n    leasehold chunks list -o jsonl"
}

// Run lists plans.
func (c chunksListCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := s.ListChunks(call, store.ChunkPlanFilter{From: c.From, Limit: c.Limit})
		if err != nil {
			return err
		}
		header := table.Row{"NAME", "STATE", "TASK", "TABLE", "KEY", "PASS", "LIVE", "DONE ROWS", "HELD", "SIZE", "NOTE"}
		return printList(a, list, header, func(i store.ChunkPlanInfo) table.Row {
			const most, mostNote = 40, 80
			return table.Row{
				ops.OneLine(i.Name, most), i.State, ops.OneLine(i.Task, most), ops.OneLine(i.Table, most), ops.OneLine(i.Key, most),
				numberOrNothing(int64(i.Pass)), i.Live, i.Done, numberOrNothing(i.Held), i.Size, ops.OneLine(chunksNote(&i), mostNote),
			}
		})
	})
}

// chunksNote says why nothing is planned, and what to do; "": it is, or there is nothing to do.
func chunksNote(i *store.ChunkPlanInfo) string {
	switch i.State {
	case store.ChunksPaused:
		if i.PausedBy != "" {
			return "paused by " + i.PausedBy
		}
	case store.ChunksParked:
		return "no present agent declares it"
	case store.ChunksStopped:
		return "the batch of its pass was cancelled or rolled back: `leasehold chunks resume` goes on in another"
	}
	return ""
}

type chunksShowCmd struct {
	Name  string `arg:"" help:"Name of the plan."`
	Limit int    `help:"Maximum number of passes, the newest first, 1 to 1000." default:"20" placeholder:"N"`
}

// Help gives examples.
func (chunksShowCmd) Help() string {
	return "Examples:\n\n    leasehold chunks show events\n    leasehold chunks show events -o json"
}

// shownChunks is a plan with its newest passes, as JSON.
type shownChunks struct {
	*store.ChunkPlanInfo

	Passes []store.ChunkPassInfo `json:"passes"`
}

// Run shows the plan.
func (c chunksShowCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		i, err := ops.ReadChunks(call, s, c.Name)
		if err != nil {
			return err
		}
		passes, err := s.ListPasses(call, c.Name, c.Limit)
		if err != nil {
			return err
		}
		return a.print(shownChunks{i, passes}, func(w io.Writer) error { return showChunks(w, i, passes) })
	})
}

// showChunks writes all that is known of a plan.
func showChunks(w io.Writer, i *store.ChunkPlanInfo, passes []store.ChunkPassInfo) error {
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
	if err := writeTable(w, t); err != nil || len(passes) == 0 {
		return err
	}
	list := newTable(table.Row{"PASS", "OF", "FROM", "THROUGH", "CHUNKS", "ROWS", "BATCH", "STATE", "DONE", "FAILED", "BEGAN", "PLANNED"})
	for n := range passes {
		p := &passes[n]
		of := "what is new"
		if p.Whole {
			of = "the table"
		}
		list.AppendRow(table.Row{
			p.Pass, of, keyOr(p.From, "its begin"), keyOr(p.Through, ""), p.Chunks, p.Rows, numberOrNothing(int64(p.Batch)), p.State,
			fmt.Sprintf("%d/%d", p.Total-p.Live, p.Total), numberOrNothing(p.Failed), ops.Time(p.BeganAt), ops.Time(p.SealedAt),
		})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return writeTable(w, list)
}

// keyOr writes a key; other for none.
func keyOr(k *store.ChunkKey, other string) string {
	const most = 40
	if k == nil {
		return other
	}
	return ops.OneLine(string(*k), most)
}

// durationOrNothing writes a duration; "" for 0.
func durationOrNothing(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
