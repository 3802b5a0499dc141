package main

import (
	"context"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type chunksCmd struct {
	List   chunksListCmd   `cmd:"" help:"List plans by name."`
	Show   chunksShowCmd   `cmd:"" help:"Show a plan with its passes."`
	Verify chunksVerifyCmd `cmd:"" help:"Prove that a table was cut without a gap, and count what is left."`

	Pause    chunksPauseCmd    `cmd:"" help:"Plan no more chunks, until it is resumed."`
	Resume   chunksResumeCmd   `cmd:"" help:"Plan again, after a pause or a cancellation."`
	Cancel   chunksCancelCmd   `cmd:"" help:"Pause a plan, and cancel the chunks of a pass."`
	Retry    chunksRetryCmd    `cmd:"" help:"Retry the failed chunks of a pass."`
	Rollback chunksRollbackCmd `cmd:"" help:"Pause a plan, and roll back the chunks of a pass."`
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
