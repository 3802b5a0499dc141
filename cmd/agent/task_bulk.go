package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// bulkChange is what the verbs share that change all tasks that match a filter.
type bulkChange struct {
	Type           string            `help:"All tasks of this type." placeholder:"TYPE"`
	State          []string          `help:"Only in this state; may be repeated." placeholder:"STATE"`
	Label          map[string]string `help:"Only with this label; may be repeated, and then all must match." placeholder:"NAME=VALUE" mapsep:"none"`
	Batch          batchID           `help:"Only tasks of this batch." placeholder:"N"`
	ErrorSignature string            `help:"Only with this kind of error, as \"batch show\" names it, or with an error like this one." placeholder:"TEXT"`
	Since          since             `help:"Only tasks that finished since then, or, where they have not, were enqueued since then: an age such as 2h or a time." placeholder:"TIME"`

	Yes    bool   `help:"Confirm a change of more than one task."`
	DryRun bool   `help:"Change nothing; print how many tasks match."`
	Reason string `help:"Why; recorded." placeholder:"TEXT"`
	Change int64  `help:"Follow a change that goes on, by its number." placeholder:"N"`
	Stop   bool   `help:"With --change: stop it."`
}

// since is a moment on the command line: a time, or an age.
type since time.Time

// UnmarshalText reads RFC 3339 or a span.
func (s *since) UnmarshalText(text []byte) error {
	if d, err := ops.ParseSpan(string(text)); err == nil {
		*s = since(time.Now().Add(-d))
		return nil
	}
	var m moment
	if err := m.UnmarshalText(text); err != nil {
		return fmt.Errorf("invalid time %q: use an age such as 90s, 2h or 7d, or a time such as 2026-11-20T08:00:00Z", text)
	}
	*s = since(m)
	return nil
}

// bulkHelp is what the help of the verbs says of filters.
const bulkHelp = `
With a filter instead of ids, all tasks that match are changed: with --yes, if there is more than one. The change is recorded, and agents
carry it on in steps; the command shows its progress, and carries it on itself where no agent does. An interrupt ends the command, not the
change: --change N follows it again, and --change N --stop stops it. It changes each task once at most: one that fails again is not met
again. Tasks that other transactions keep locked are tried again for 30 seconds. Exit 1 if tasks could not be changed.
`

// filter returns the filter that the flags are.
func (c *bulkChange) filter() (f store.BulkFilter, err error) {
	states, err := ops.ParseStates(c.State)
	if err != nil {
		return f, usagef("--state %w", err)
	}
	f = store.BulkFilter{Type: c.Type, States: states, Labels: c.Label, Batch: task.BatchID(c.Batch), Signature: c.ErrorSignature}
	if at := time.Time(c.Since); !at.IsZero() {
		at = at.UTC()
		f.Since = &at
	}
	return f, nil
}

// change changes the tasks that a command names, or those that match its filter.
func (c *bulkChange) change(a *app, verb ops.Verb, ids []taskID, by string) error {
	f, err := c.filter()
	if err != nil {
		return err
	}
	switch {
	case c.Change != 0 && (len(ids) > 0 || !f.Empty() || c.DryRun):
		return usagef("--change names a change that goes on: give no ids, no filter and no --dry-run with it")
	case c.Change != 0:
		return a.resumeBulk(c, by)
	case c.Stop:
		return usagef("--stop needs --change, the number of the change")
	case len(ids) > 0 && !f.Empty():
		return usagef("give ids or a filter, not both")
	case len(ids) > 0 && (c.DryRun || c.Reason != ""):
		return usagef("--dry-run and --reason are for filters: leave them out with ids")
	case len(ids) > 0:
		return a.changeTasks(verb, ids, by)
	case f.Empty():
		return usagef("give ids of tasks, or a filter: --type, --state, --label, --batch, --error-signature or --since")
	}
	return a.changeMatching(c, store.BulkRequest{Verb: string(verb), Filter: f, By: by, Reason: c.Reason})
}

// bulkWords say what a verb does, and has done.
func bulkWords(verb string) (does, did string) {
	switch verb {
	case store.VerbCancel:
		return "cancels", "cancelled"
	case store.VerbRetry:
		return "retries", "retried"
	}
	return "rolls back", "rolled back"
}

// changeMatching changes the tasks that match a filter. More than one is changed only with --yes.
func (a *app) changeMatching(c *bulkChange, r store.BulkRequest) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		if c.DryRun || !c.Yes {
			p, err := ops.PreviewBulk(ctx, batch.NewBulk(s, ops.NamedSignature), r)
			if err != nil {
				return bulkRefusal(err)
			}
			does, _ := bulkWords(r.Verb)
			text := fmt.Sprintf("this %s %s", does, ops.Tasks(p.Tasks))
			if p.Capped {
				text = fmt.Sprintf("this %s %s or more: the preview %s", does, ops.Tasks(p.Tasks), p.LookedBack)
			}
			if c.DryRun || p.Tasks == 0 && !p.Capped {
				return a.print(p, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, text)
					return err
				})
			}
			if p.Tasks > 1 || p.Capped {
				return usagef("%s; confirm with --yes, or use --dry-run to change nothing", text)
			}
		}
		id, err := ops.StartBulk(ctx, s, r)
		if err != nil {
			return bulkRefusal(err)
		}
		return a.followBulk(ctx, s, id)
	})
}

// bulkRefusal is a mistake in a request as an error of use.
func bulkRefusal(err error) error {
	if input, ok := errors.AsType[*store.InputError](err); ok {
		return usagef("%s", input.Text)
	}
	return err
}

// resumeBulk follows a change that goes on, or stops it.
func (a *app) resumeBulk(c *bulkChange, by string) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		if !c.Stop {
			return a.followBulk(ctx, s, c.Change)
		}
		i, err := ops.StopBulk(ctx, s, c.Change, by)
		if err != nil {
			return err
		}
		return a.print(i, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, bulkLine(i))
			return err
		})
	})
}

// followBulk follows a change to its end.
func (a *app) followBulk(parent context.Context, s dataStore, id int64) error {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	out := a.newLive()
	watch := ops.BulkWatch{
		Trouble: func(err error) { a.log().Warn("the store is out of reach; still following", "err", err) },
		Seen: func(i *ops.BulkInfo) error {
			if a.cli.Output == "table" && (out.width > 0 || i.State == "running" && i.Looked == 0) {
				return out.show(bulkLine(i))
			}
			return nil
		},
	}
	i, err := ops.FollowBulk(ctx, s, batch.NewBulk(s, ops.NamedSignature), id, watch)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted; agents carry on change %d: --change %d follows it, and --change %d --stop stops it", id, id, id)
	}
	if err != nil {
		return errors.Join(out.end(), err)
	}
	if a.cli.Output == "table" {
		err = errors.Join(out.show(bulkLine(i)), out.end())
	} else {
		err = a.print(i, nil)
	}
	if stay := i.Refused + i.Skipped; err == nil && stay > 0 {
		err = fmt.Errorf("%s could not be changed", ops.Tasks(stay))
	}
	return err
}

// bulkLine says how far a change is.
func bulkLine(i *ops.BulkInfo) string {
	_, did := bulkWords(i.Verb)
	line := fmt.Sprintf("change %d: %s %s", i.ID, ops.Tasks(i.Done), did)
	if i.Refused > 0 {
		line += fmt.Sprintf(", %s refused", ops.Thousands(i.Refused))
	}
	switch {
	case i.State != "running" && i.Skipped > 0:
		line += fmt.Sprintf(", %s locked by other transactions", ops.Thousands(i.Skipped))
	case i.State == "running" && i.Locked > 0:
		line += fmt.Sprintf(", %d locked", i.Locked)
	}
	switch i.State {
	case "running":
		return line + fmt.Sprintf(" (%s of the ids looked at)", ops.Percent(i.Progress))
	case "stopped":
		return line + "; stopped"
	}
	return line
}
