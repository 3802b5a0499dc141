package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type batchCmd struct {
	Create batchCreateCmd `cmd:"" help:"Create a batch and its tasks from NDJSON, all or nothing."`
	List   batchListCmd   `cmd:"" help:"List batches, newest first."`
	Show   batchShowCmd   `cmd:"" help:"Show a batch with its counts and failures."`
	Watch  batchWatchCmd  `cmd:"" help:"Follow a batch until it ends."`

	Seal     batchSealCmd     `cmd:"" help:"Close an open batch to further tasks."`
	Cancel   batchCancelCmd   `cmd:"" help:"Cancel the waiting tasks of a batch, and stop the running ones."`
	Retry    batchRetryCmd    `cmd:"" help:"Retry the failed tasks of a batch."`
	Rollback batchRollbackCmd `cmd:"" help:"Cancel the rest of a batch, and roll back the tasks that were started."`
}

// batchID is a batch's number on the command line.
type batchID task.BatchID

// UnmarshalText reads a batch's number.
func (id *batchID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("invalid batch id %q", text)
	}
	*id = batchID(n)
	return nil
}

type batchListCmd struct {
	State []string `help:"Only in this state; may be repeated." placeholder:"STATE"`
	Name  string   `help:"Only batches with this name." placeholder:"NAME"`
	Limit int      `help:"Maximum number of rows, 1 to 1000." default:"50" placeholder:"N"`
}

// Help gives examples.
func (batchListCmd) Help() string {
	return `Examples:

    leasehold batch list
    leasehold batch list --state running --state rolling_back
    leasehold batch list --name 'move to az2' -o jsonl`
}

// Run lists batches.
func (c batchListCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	states, err := ops.ParseBatchStates(c.State)
	if err != nil {
		return usagef("--state %w", err)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		infos, err := s.ListBatches(call, store.BatchFilter{States: states, Name: c.Name, Limit: c.Limit})
		if err != nil {
			return err
		}
		header := table.Row{"ID", "NAME", "STATE", "DONE", "TOTAL", "FAILED", "CREATED", "BY"}
		return printList(a, infos, header, a.batchRow)
	})
}

// batchRow is a batch in a table.
func (a *app) batchRow(b store.BatchInfo) table.Row {
	const most = 30
	return table.Row{
		b.ID, ops.OneLine(b.Name, most), a.batchState(b.State), percentOf(b.Progress), b.Total, b.Failed + b.RollbackFailed,
		b.CreatedAt.UTC().Format(time.RFC3339), ops.OneLine(b.CreatedBy, most),
	}
}

// percentOf writes a share; "" where there is none.
func percentOf(share *float64) string {
	if share == nil {
		return ""
	}
	return ops.Percent(*share)
}

type batchShowCmd struct {
	ID batchID `arg:"" help:"Id of the batch."`
}

// Help gives examples.
func (batchShowCmd) Help() string {
	return "Examples:\n\n    leasehold batch show 17\n    leasehold batch show 17 -o json"
}

// Run shows the batch.
func (c batchShowCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		shown, err := ops.ReadBatch(call, s, task.BatchID(c.ID))
		if err != nil {
			return err
		}
		return a.print(shown, func(w io.Writer) error { return a.showBatch(w, shown) })
	})
}

// showBatch writes all that is known of a batch.
func (a *app) showBatch(w io.Writer, s ops.BatchDetail) error {
	const most = 400
	b := s.BatchInfo
	t := newTable(nil)
	line := func(name string, value any) {
		if s := fmt.Sprint(value); s != "" && s != "0" {
			t.AppendRow(table.Row{name, s})
		}
	}
	line("batch", b.ID)
	line("name", ops.OneLine(b.Name, most))
	line("state", a.batchState(b.State))
	line("progress", percentOf(b.Progress))
	line("on failure", b.OnFailure)
	line("open", openWords(b))
	line("operation", b.Operation)
	line("requested by", ops.OneLine(b.RequestedBy, most))
	line("round", b.Round)
	line("labels", compactJSON(b.Labels))
	line("finish type", ops.OneLine(b.FinishType, most))
	line("created", ops.Time(b.CreatedAt))
	line("created by", ops.OneLine(b.CreatedBy, most))
	line("ended", timeOf(b.EndedAt))
	line("failures", b.Failures)
	t.AppendRow(table.Row{"tasks", b.Total})
	for _, c := range ops.BatchCounts(b) {
		line("  "+c.Name, c.N)
	}
	line("  left as they were", b.Refused)
	if err := writeTable(w, t); err != nil {
		return err
	}
	return showFailures(w, s.Failures, s.FailuresCapped)
}

// openWords says that rows may be added.
func openWords(b *store.BatchInfo) string {
	if !ops.BatchOpen(b) {
		return ""
	}
	return "for more tasks, until it is sealed"
}

func showFailures(w io.Writer, groups []ops.FailureGroup, capped bool) error {
	if len(groups) == 0 {
		return nil
	}
	const most = 100
	t := newTable(table.Row{"TASKS", "AS TASK", "FAILURE"})
	for _, g := range groups {
		t.AppendRow(table.Row{g.N, g.Example, ops.OneLine(g.Signature, most)})
	}
	title := "\nfailures"
	if capped {
		title += fmt.Sprintf(" (of the newest %s)", ops.Thousands(store.BatchFailuresRead))
	}
	if _, err := fmt.Fprintln(w, title); err != nil {
		return err
	}
	return writeTable(w, t)
}
