package main

import (
	"context"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// orphanChange is what verbs share that change the waiting tasks of a type.
type orphanChange struct {
	Reason string `help:"Why; recorded." placeholder:"TEXT"`
	By     string `help:"Who requests it; recorded." placeholder:"WHO"`
	Yes    bool   `help:"Confirm a change of more than one task."`
	DryRun bool   `help:"Change nothing; print how many tasks would change, and which would stay."`
}

type orphansCancelCmd struct {
	Type string `arg:"" help:"Type of tasks."`

	orphanChange
}

// Help gives examples.
func (orphansCancelCmd) Help() string {
	return `Waiting tasks of the type are cancelled, as with ` + "`leasehold task cancel`" + `: those that were started and have a rollback wait to be
rolled back, for an agent that declares the type. Running tasks and rollbacks do not change. It works in steps of a thousand tasks: repeat
it if it was interrupted. Tasks that are inserted meanwhile may be cancelled, too. It is refused while a running agent declares the type.
Exit 1 if tasks stay because other transactions work on them.

Examples:

    leasehold orphans cancel invoice.send --dry-run
    leasehold orphans cancel invoice.send --yes --by alice --reason "replaced by billing"`
}

// Run cancels.
func (c orphansCancelCmd) Run(a *app) error {
	change := ops.OrphanChange{Type: c.Type, By: c.By, Reason: c.Reason}
	return a.changeOrphans(c.orphanChange, c.Type, orphanWords{"cancels %s", "%s cancelled"},
		func(ctx context.Context, s dataStore, preview bool) (ops.OrphansChanged, error) {
			return ops.CancelOrphans(ctx, s, change, preview)
		})
}

// orphanWords say what a change does, and has done, with so many tasks.
type orphanWords struct{ does, did string }

// changeOrphans changes the tasks of a type. More than one is changed only with --yes.
func (a *app) changeOrphans(
	c orphanChange, typ string, words orphanWords, do func(ctx context.Context, s dataStore, preview bool) (ops.OrphansChanged, error),
) error {
	name := ops.OneLine(typ, store.MaxType)
	return a.withTables(func(ctx context.Context, s dataStore) error {
		if c.DryRun || !c.Yes {
			p, err := do(ctx, s, true)
			if err != nil {
				return plainRefusal(err)
			}
			does := fmt.Sprintf(words.does, ops.Tasks(int64(p.Changed)))
			if c.DryRun {
				return a.print(p, func(w io.Writer) error { return showOrphans(w, fmt.Sprintf("type %s: this %s", name, does), p) })
			}
			if p.Changed > 1 {
				return usagef("type %s: this %s: confirm with --yes, or use --dry-run to change nothing", name, does)
			}
		}
		p, err := do(ctx, s, false)
		if p.Changed > 0 || err == nil {
			did := fmt.Sprintf(words.did, ops.Tasks(int64(p.Changed)))
			broken := a.print(p, func(w io.Writer) error { return showOrphans(w, fmt.Sprintf("type %s: %s", name, did), p) })
			if broken != nil {
				return broken
			}
		}
		if err == nil && p.Stay > 0 {
			err = fmt.Errorf("%s of the type %s stay as they are", ops.Tasks(int64(p.Stay)), name)
		}
		return plainRefusal(err)
	})
}

// showOrphans writes what came of a change, and which tasks stay.
func showOrphans(w io.Writer, text string, p ops.OrphansChanged) error {
	if p.RollsBack > 0 {
		text += fmt.Sprintf(", %d of which to be rolled back", p.RollsBack)
	}
	if _, err := fmt.Fprintln(w, text); err != nil || len(p.Left) == 0 {
		return err
	}
	t := newTable(table.Row{"TASK", "STAYS BECAUSE"})
	for _, l := range p.Left[:min(len(p.Left), mostShown)] {
		t.AppendRow(table.Row{int64(l.ID), ops.WhyOrphanStays(l)})
	}
	if err := writeTable(w, t); err != nil || p.Stay <= mostShown {
		return err
	}
	_, err := fmt.Fprintf(w, "%s stay; -o json names more of them\n", ops.Tasks(int64(p.Stay)))
	return err
}
