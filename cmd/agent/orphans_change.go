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
    leasehold orphans cancel invoice.send --yes --reason "replaced by billing"`
}

// Run cancels.
func (c orphansCancelCmd) Run(a *app) error {
	change := ops.OrphanChange{Type: c.Type, By: c.By, Reason: c.Reason}
	return a.changeOrphans(c.orphanChange, change, orphanWords{"cancels %s", "%s cancelled"})
}

type orphansMoveCmd struct {
	Old string `arg:"" help:"Type of tasks."`
	New string `arg:"" help:"Type that they get."`

	orphanChange
}

// Help gives examples.
func (orphansMoveCmd) Help() string {
	return `Waiting tasks get the other type, and all else stays as it is: their place, attempts, keys, locks, tenants and batches. These stay as
they are, and are named: tasks whose key a live task of the other type has; tasks that may have to be rolled back, where the other type
has no rollback; all tasks of a sequence if one of them cannot be moved, if a failure blocks it, or if it has more than 1,000 tasks; and
tasks on which another transaction works. Running tasks are not moved. It works in steps of a thousand tasks: repeat it if it was
interrupted. Tasks that are inserted meanwhile may be moved, too. It is refused while a running agent declares the old type. Exit 1 if
tasks stay.

Examples:

    leasehold orphans move invoice.send billing.send --dry-run
    leasehold orphans move invoice.send billing.send --yes --reason "renamed"`
}

// Run moves.
func (c orphansMoveCmd) Run(a *app) error {
	if c.New == "" {
		return usagef("NEW is empty: name the type that the tasks get")
	}
	if err := checkTypes(c.New); err != nil {
		return err
	}
	to := " to " + ops.OneLine(c.New, store.MaxType)
	change := ops.OrphanChange{Type: c.Old, Into: c.New, By: c.By, Reason: c.Reason}
	to = strings.ReplaceAll(to, "%", "%%")
	return a.changeOrphans(c.orphanChange, change, orphanWords{"moves %s" + to, "%s moved" + to})
}

// orphanWords say what a change does, and has done, with so many tasks.
type orphanWords struct{ does, did string }

// changeOrphans changes the tasks of a type. More than one is changed only with --yes.
func (a *app) changeOrphans(c orphanChange, change ops.OrphanChange, words orphanWords) error {
	name := ops.OneLine(change.Type, store.MaxType)
	return a.withTables(func(ctx context.Context, s dataStore) error {
		if c.DryRun || !c.Yes {
			p, err := ops.ChangeOrphans(ctx, s, change, true)
			if err != nil {
				return plainRefusal(err)
			}
			text := fmt.Sprintf("type %s: this %s", name, fmt.Sprintf(words.does, ops.Tasks(int64(p.Changed))))
			if c.DryRun {
				return a.previewOrphans(ctx, s, change, text, p)
			}
			if p.Changed > 1 {
				return usagef("%s: confirm with --yes, or use --dry-run to change nothing", text)
			}
		}
		p, err := ops.ChangeOrphans(ctx, s, change, false)
		if p.Changed > 0 || err == nil {
			did := fmt.Sprintf(words.did, ops.Tasks(int64(p.Changed)))
			broken := a.print(p, func(w io.Writer) error { return showOrphans(w, fmt.Sprintf("type %s: %s", name, did), p) })
			if broken != nil {
				return broken
			}
		}
		if err == nil {
			err = a.warnUndeclared(ctx, s, change)
		}
		if err == nil && p.Stay > 0 {
			err = fmt.Errorf("%s of the type %s stay as they are", ops.Tasks(int64(p.Stay)), name)
		}
		return plainRefusal(err)
	})
}

// previewOrphans prints what a change would do.
func (a *app) previewOrphans(ctx context.Context, s dataStore, change ops.OrphanChange, text string, p ops.OrphansChanged) error {
	if err := a.print(p, func(w io.Writer) error { return showOrphans(w, text, p) }); err != nil {
		return err
	}
	return a.warnUndeclared(ctx, s, change)
}

// warnUndeclared says so where no agent claims the type that tasks get.
func (a *app) warnUndeclared(ctx context.Context, s dataStore, change ops.OrphanChange) error {
	if change.Into == "" {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	takers, err := s.Takers(call, change.Into)
	if err == nil && takers.OfType == 0 {
		agents, _ := s.ListAgents(call, false) // a suggestion is worth no error
		_, err = fmt.Fprintf(a.err, "leasehold: no running agent declares the type %s%s: its tasks wait until one does\n",
			ops.OneLine(change.Into, store.MaxType), ops.DidYouMean(change.Into, agents))
	}
	return err
}

// showOrphans writes what came of a change, and which tasks stay.
func showOrphans(w io.Writer, text string, p ops.OrphansChanged) error {
	if p.RollsBack > 0 {
		text += fmt.Sprintf(", %d of which to be rolled back", p.RollsBack)
	}
	if _, err := fmt.Fprintln(w, text); err != nil || len(p.Left) == 0 {
		return err
	}
	const most = 40
	t := newTable(table.Row{"TASK", "SEQUENCE", "TASKS", "STAYS BECAUSE"})
	for _, l := range p.Left[:min(len(p.Left), mostShown)] {
		t.AppendRow(table.Row{int64(l.ID), ops.OneLine(l.Sequence, most), l.Rows, ops.WhyOrphanStays(l)})
	}
	if err := writeTable(w, t); err != nil || len(p.Left) <= mostShown {
		return err
	}
	_, err := fmt.Fprintf(w, "%s stay in all; -o json names more of them\n", ops.Tasks(int64(p.Stay)))
	return err
}
