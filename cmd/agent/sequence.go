package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type sequenceCmd struct {
	List   sequenceListCmd   `cmd:"" help:"List sequences by type and name."`
	Show   sequenceShowCmd   `cmd:"" help:"Show a sequence with its next ten tasks."`
	Skip   sequenceSkipCmd   `cmd:"" help:"Go on behind the failure that blocks a sequence."`
	Retry  sequenceRetryCmd  `cmd:"" help:"Retry the failed task that blocks a sequence."`
	Cancel sequenceCancelCmd `cmd:"" help:"Cancel the waiting tasks of a sequence, and resolve its failures."`
}

type sequenceListCmd struct {
	Type     string `help:"Only sequences of this type." placeholder:"TYPE"`
	FromType string `help:"Only sequences from this type on." placeholder:"TYPE"`
	From     string `help:"Only sequences from this name on; of --from-type, if that is given." placeholder:"NAME"`
	Limit    int    `help:"Maximum number of rows, 1 to 1000." default:"1000" placeholder:"N"`
}

// Help gives examples.
func (sequenceListCmd) Help() string {
	return `STATE is running, waiting (the task whose turn it is waits to start, or to start again) or blocked (a failure has to be
resolved). WAITING counts the tasks behind that task, up to 10,000, and fewer where many sequences are listed: 200+ means that there are more.

Examples:

    leasehold sequence list
    leasehold sequence list --type account.book -o jsonl`
}

// Run lists sequences.
func (c sequenceListCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		from := c.FromType
		if from == "" {
			from = c.Type
		}
		all, err := s.ListSequences(call, store.SequenceFilter{Type: c.Type, FromType: from, FromName: c.From, Limit: c.Limit})
		if err != nil {
			return err
		}
		return printList(a, all.List, table.Row{"TYPE", "SEQUENCE", "STATE", "TASK", "WAITING", "SINCE", "FAILURES"}, sequenceRow)
	})
}

// sequenceRow is a sequence in a table.
func sequenceRow(i store.SequenceInfo) table.Row {
	const most = 60
	return table.Row{
		ops.OneLine(i.Type, most), ops.OneLine(i.Sequence, most), string(i.State), int64(i.Task), atLeast(int64(i.Waiting), i.Capped),
		shortTime(i.Since.Truncate(time.Second)), numberOrNothing(int64(i.Failures)),
	}
}

// sequenceOne names a sequence.
type sequenceOne struct {
	Type     string `arg:"" help:"Type of the tasks."`
	Sequence string `arg:"" help:"Name of the sequence."`
}

type sequenceShowCmd struct{ sequenceOne }

// Help gives examples.
func (sequenceShowCmd) Help() string {
	return "Examples:\n\n    leasehold sequence show account.book account-7\n    leasehold sequence show account.book account-7 -o json"
}

// Run shows the sequence.
func (c sequenceShowCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		d, err := ops.ShowSequence(call, s, c.Type, c.Sequence)
		if err != nil {
			return err
		}
		return a.print(d, func(w io.Writer) error { return showSequence(w, d) })
	})
}

// showSequence writes all that is known of a sequence.
func showSequence(w io.Writer, d ops.SequenceDetail) error {
	const most = 400
	t := newTable(nil)
	line := func(name, value string) {
		if value != "" {
			t.AppendRow(table.Row{name, ops.OneLine(value, most)})
		}
	}
	next := make([]string, len(d.Next))
	for i, id := range d.Next {
		next[i] = strconv.FormatInt(int64(id), 10)
	}
	line("type", d.Type)
	line("sequence", d.Sequence)
	line("state", string(d.State))
	line("task", numberOrNothing(int64(d.Task)))
	line("since", ops.Time(d.Since))
	if d.Waiting > 0 {
		line("waiting", fmt.Sprint(atLeast(int64(d.Waiting), d.Capped)))
	}
	line("failures", numberOrNothing(int64(d.Failures)))
	line("next tasks", strings.Join(next, ", "))
	return writeTable(w, t)
}

// sequenceChange is what verbs share that resolve a failure.
type sequenceChange struct {
	sequenceOne

	Task int64  `help:"Only if it is this task that blocks the sequence." placeholder:"ID"`
	By   string `help:"Who requests it; recorded." placeholder:"WHO"`
}

type sequenceSkipCmd struct{ sequenceChange }

// Help gives examples.
func (sequenceSkipCmd) Help() string {
	return `The failed task stays as it is, and the tasks behind it run. With --task, a repeat does not skip the next failure.

Examples:

    leasehold sequence skip account.book account-7 --by alice
    leasehold sequence skip account.book account-7 --task 41`
}

// Run skips.
func (c sequenceSkipCmd) Run(a *app) error {
	return c.change(a, false)
}

type sequenceRetryCmd struct{ sequenceChange }

// Help gives examples.
func (sequenceRetryCmd) Help() string {
	return `The failed task runs again, as with ` + "`leasehold task retry`" + `, and the tasks behind it once it has succeeded.

Examples:

    leasehold sequence retry account.book account-7 --by alice`
}

// Run retries.
func (c sequenceRetryCmd) Run(a *app) error {
	return c.change(a, true)
}

// change resolves the failure that blocks the sequence, and prints which task that was of.
func (c sequenceChange) change(a *app, retry bool) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		changed, err := ops.ResolveSequence(call, s, c.Type, c.Sequence, task.ID(c.Task), retry, c.By)
		if err != nil {
			return plainRefusal(err)
		}
		return a.print(changed, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "task %d: %s\n", changed.Task, changed.Became)
			return err
		})
	})
}

type sequenceCancelCmd struct {
	sequenceOne

	By string `help:"Who requests it; recorded." placeholder:"WHO"`
}

// Help gives examples.
func (sequenceCancelCmd) Help() string {
	return `A task that runs goes on, and so do rollbacks. Tasks that are inserted meanwhile may be cancelled, too. It works in steps of a
thousand tasks: repeat it if it was interrupted.

Examples:

    leasehold sequence cancel account.book account-7 --by alice`
}

// Run cancels.
func (c sequenceCancelCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		changed, err := ops.CancelSequence(ctx, s, c.Type, c.Sequence, c.By)
		if err != nil {
			return plainRefusal(err)
		}
		return a.print(changed, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "sequence %s: %d tasks cancelled\n", c.Sequence, changed.Tasks)
			return err
		})
	})
}

// plainRefusal is a refusal without what was attempted, since it says all.
func plainRefusal(err error) error {
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		return refused
	}
	return err
}
