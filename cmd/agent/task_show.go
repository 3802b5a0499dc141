package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/exec/ping"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// mostShown is how many tasks a list in one line has.
const mostShown = 10

type taskShowCmd struct {
	ID taskID `arg:"" help:"Id of the task."`
}

// taskID is a task's number on the command line.
type taskID task.ID

// UnmarshalText reads a task's number.
func (id *taskID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("invalid task id %q", text)
	}
	*id = taskID(n)
	return nil
}

// Help gives examples.
func (taskShowCmd) Help() string {
	return "The history names the agent that each attempt ran on. Of an attempt that was lost it also names\n" +
		"the agent that reaped it, and STARTED is the time at which it was claimed.\n\n" +
		"Examples:\n\n    leasehold task show 4211\n    leasehold task show 4211 -o json"
}

// Run shows the task.
func (c taskShowCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		info, err := ops.ReadTask(call, s, task.ID(c.ID))
		if err != nil {
			return err
		}
		a.trace(call, s, info)
		return a.print(info, func(w io.Writer) error { return a.showTask(w, info) })
	})
}

// trace fills in the trace context that agents derive for a task without one. Only who may read the store's key can know it.
func (a *app) trace(ctx context.Context, s lease.Remote, i *ops.Task) {
	err := ops.FillTrace(i, func(id task.ID) (string, error) { return derivedTrace(ctx, s, id) })
	if err != nil {
		a.log().Debug("the store's key cannot be read, so the task's trace is not known", "err", err)
	}
}

// derivedTrace is the trace context that agents derive for a task.
func derivedTrace(ctx context.Context, s lease.Remote, id task.ID) (string, error) {
	secret, err := s.Secret(ctx)
	if err != nil {
		return "", err
	}
	signer, err := ping.NewSigner(secret)
	if err != nil {
		return "", err
	}
	return signer.Trace(id), nil
}

// showTask writes all that is known of a task: what it is, how it went, what it printed.
func (a *app) showTask(w io.Writer, i *ops.Task) error {
	t := taskTable(a.state(i.State), i)
	if err := writeTable(w, t); err != nil {
		return err
	}
	if err := showHistory(w, ops.History(i)); err != nil {
		return err
	}
	return showOutput(w, i)
}

// taskTable has a line for each thing that a task has.
func taskTable(state string, i *ops.Task) *grid {
	const most = 400
	t := newTable(nil)
	line := func(name string, value any) {
		if s := fmt.Sprint(value); s != "" && s != "0" {
			t.AppendRow(table.Row{name, s})
		}
	}
	line("task", i.ID)
	line("type", ops.OneLine(i.Type, most))
	line("state", state)
	line("summary", ops.Summary(i))
	line("error", ops.OneLine(i.Error, most))
	line("cause", i.Cause)
	line("progress", ops.Progress(i.Progress))
	line("message", ops.OneLine(i.Message, most))
	line("cancel asked", ops.CancelRequest(i))
	line("result", cut(compactJSON(i.Result), most))
	line("payload", cut(compactJSON(i.Payload), most))
	line("checkpoint", cut(compactJSON(i.Checkpoint), most))
	line("rollback payload", cut(compactJSON(i.RollbackPayload), most))
	line("labels", compactJSON(i.Labels))
	line("key", ops.OneLine(i.Key, most))
	line("region", ops.Region(i, most))
	line("follows", i.Follows)
	line("followed by", i.FollowedBy)
	line("inserted", ops.InsertedFor(i))
	line("lock", ops.Lock(i, most))
	line("sequence", ops.Sequence(i, most))
	line("after", ops.After(i, mostShown))
	line("waited for by", ops.WaitedForBy(i, mostShown))
	line("cancelled for it", ops.CancelledFor(i, mostShown))
	line("tenant", ops.OneLine(i.Tenant, most))
	line("batch", i.Batch)
	line("priority", i.Priority)
	line("attempt", ops.Attempts(i))
	line("round", i.Round)
	line("fence", i.Fence)
	line("traceparent", ops.OneLine(i.Traceparent, most))
	line("agent", ops.OneLine(i.Agent, most))
	line("created", ops.Time(i.CreatedAt))
	line("created by", ops.OneLine(i.CreatedBy, most))
	line("due", ops.Time(i.RunAt))
	line("claimed", timeOf(i.ClaimedAt))
	line("lease until", ops.Lease(i))
	line("deadline", timeOf(i.Deadline))
	line("finished", timeOf(i.FinishedAt))
	return t
}

func showHistory(w io.Writer, history []ops.Attempt) error {
	if len(history) == 0 {
		return nil
	}
	const most, mostName = 80, 40
	t := newTable(table.Row{"PHASE", "ATTEMPT", "OUTCOME", "BECAME", "STARTED", "TOOK", "AGENT", "ERROR"})
	for _, h := range history {
		started, took := "", ""
		if h.StartedAt != nil {
			started, took = ops.Time(*h.StartedAt), ops.Duration(h.Took)
		}
		t.AppendRow(table.Row{h.Phase, h.Attempt, h.Outcome, h.State, started, took, h.RanOn(mostName), ops.OneLine(h.Error, most)})
	}
	if _, err := fmt.Fprintln(w, "\nhistory"); err != nil {
		return err
	}
	return writeTable(w, t)
}

// showOutput writes what the attempts printed; the last one's is the task's own.
func showOutput(w io.Writer, i *ops.Task) error {
	for _, h := range ops.EarlierOutputs(i) {
		if err := section(w, fmt.Sprintf("output of %s, attempt %d", h.Phase, h.Attempt), h.Output); err != nil {
			return err
		}
	}
	return section(w, "output", i.Output)
}

func section(w io.Writer, title, text string) error {
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintf(unfolded(w), "\n%s\n%s\n", title, strings.TrimRight(ops.Printable(text), "\n"))
	return err
}

func timeOf(t *time.Time) string {
	if t == nil {
		return ""
	}
	return ops.Time(*t)
}

// cut shortens a text for people.
func cut(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "… (all of it with -o json)"
	}
	return s
}
