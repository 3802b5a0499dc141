package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// batchChanged is what came of a verb, as JSON.
type batchChanged struct {
	Batch  task.BatchID `json:"batch"`
	Became string       `json:"became,omitempty"`
	Tasks  *int64       `json:"tasks,omitempty"`   // with --dry-run: how many it would change, at the most
	DryRun bool         `json:"dry_run,omitempty"` // nothing was changed
}

type batchSealCmd struct {
	ID batchID `arg:"" help:"Number of the batch."`
}

// Help gives examples.
func (batchSealCmd) Help() string {
	return `A batch that was created open ends only once it is sealed.

Examples:

    leasehold batch seal 17`
}

// Run seals.
func (c batchSealCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		return a.changeBatch(ctx, c.ID, func(ctx context.Context) (string, error) { return ops.SealBatch(ctx, s, task.BatchID(c.ID)) })
	})
}

// batchMany is what verbs share that change many tasks.
type batchMany struct {
	ID     batchID `arg:"" help:"Number of the batch."`
	By     string  `help:"Who wants it, for those who look, and for the tasks." placeholder:"WHO"`
	Yes    bool    `help:"Do it, however many tasks it changes."`
	DryRun bool    `help:"Change nothing: print how many tasks it would change."`
}

// change is the request that the flags make.
func (c batchMany) change(verb ops.Verb) ops.BatchChange {
	return ops.BatchChange{Verb: verb, By: c.By}
}

type batchCancelCmd struct{ batchMany }

// Help gives examples.
func (batchCancelCmd) Help() string {
	return `From the moment that this returns nothing of the batch starts any more. What runs is told to stop, and may still
finish; what was started and has a rollback is rolled back. Agents carry that out, step by step.

Examples:

    leasehold batch cancel 17 --dry-run
    leasehold batch cancel 17 --yes --by alice`
}

// Run cancels.
func (c batchCancelCmd) Run(a *app) error {
	return a.changeMany(c.batchMany, "calls off", c.change(ops.VerbCancel))
}

type batchRetryCmd struct{ batchMany }

// Help gives examples.
func (batchRetryCmd) Help() string {
	return `Tasks that have failed wait again, also those that were rolled back because they had failed. A batch that has ended is
opened again: it ends anew, with another finish task. What has succeeded, and what was called off, stays as it is.

Examples:

    leasehold batch retry 17 --dry-run
    leasehold batch retry 17 --yes`
}

// Run retries.
func (c batchRetryCmd) Run(a *app) error {
	return a.changeMany(c.batchMany, "retries", c.change(ops.VerbRetry))
}

type batchRollbackCmd struct {
	batchMany

	Force bool `help:"Undo what is left, where tasks of it are past their retention."`
}

// Help gives examples.
func (batchRollbackCmd) Help() string {
	return `Nothing of the batch starts any more, what runs is told to stop, and then all that was done is undone by the rollback of
its type, what was started last first. It is refused where tasks are past their retention, since those cannot be undone any
more; --force undoes the others.

Examples:

    leasehold batch rollback 17 --dry-run
    leasehold batch rollback 17 --yes --by alice
    leasehold batch rollback 17 --yes --force`
}

// Run rolls back.
func (c batchRollbackCmd) Run(a *app) error {
	change := c.change(ops.VerbRollback)
	change.Force = c.Force
	return a.changeMany(c.batchMany, "calls off or undoes", change)
}

// changeMany changes a batch as a whole. More than one task is changed only with --yes. does is the change as a verb.
func (a *app) changeMany(c batchMany, does string, change ops.BatchChange) error {
	if err := change.Check(); err != nil {
		return err
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		if c.DryRun || !c.Yes {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			b, n, err := ops.CountChange(call, s, task.BatchID(c.ID), change)
			if err != nil {
				return err
			}
			if c.DryRun {
				return a.print(batchChanged{Batch: b.ID, Tasks: &n, DryRun: true}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "batch %d, %s: this %s %s at the most\n", b.ID, b.State, does, ops.Tasks(n))
					return err
				})
			}
			if n > 1 {
				return usagef("batch %d: this %s %s at the most: say --yes, or --dry-run to change nothing", b.ID, does, ops.Tasks(n))
			}
		}
		return a.changeBatch(ctx, c.ID, func(ctx context.Context) (string, error) {
			return ops.ChangeBatch(ctx, s, task.BatchID(c.ID), change)
		})
	})
}

// changeBatch makes one change, and prints what became of the batch.
func (a *app) changeBatch(ctx context.Context, id batchID, change func(context.Context) (string, error)) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	became, err := change(call)
	if refused, ok := errors.AsType[*ops.RefusedError](err); ok {
		return refused // which says all
	}
	if err != nil {
		return err
	}
	return a.print(batchChanged{Batch: task.BatchID(id), Became: became}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "batch %d: %s\n", id, a.batchState(ops.BatchState(became)))
		return err
	})
}
