package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type batchSealCmd struct {
	ID batchID `arg:"" help:"Id of the batch."`
}

// Help gives examples.
func (batchSealCmd) Help() string {
	return `An open batch can end only after it is sealed.

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
	ID     batchID `arg:"" help:"Id of the batch."`
	By     string  `help:"Who requests it; recorded, and passed to running tasks." placeholder:"WHO"`
	Yes    bool    `help:"Confirm a change of more than one task."`
	DryRun bool    `help:"Change nothing; print the maximum number of tasks that would change."`
}

// change is the request that the flags make.
func (c batchMany) change(verb ops.Verb) ops.BatchChange {
	return ops.BatchChange{Verb: verb, By: c.By}
}

type batchCancelCmd struct{ batchMany }

// Help gives examples.
func (batchCancelCmd) Help() string {
	return `Once this command has returned, no task of the batch is claimed. Running tasks are asked to stop, and may still finish; tasks that
were started and have a rollback are rolled back. Agents carry this out in steps.

Examples:

    leasehold batch cancel 17 --dry-run
    leasehold batch cancel 17 --yes --by alice`
}

// Run cancels.
func (c batchCancelCmd) Run(a *app) error {
	return a.changeMany(c.batchMany, "cancels", c.change(ops.VerbCancel), nil)
}

type batchRetryCmd struct{ batchMany }

// Help gives examples.
func (batchRetryCmd) Help() string {
	return `Failed tasks return to waiting, including those that were rolled back because they had failed. A batch that has ended is
reopened: when it ends again, it inserts another finish task. Succeeded and cancelled tasks do not change.

Examples:

    leasehold batch retry 17 --dry-run
    leasehold batch retry 17 --yes`
}

// Run retries.
func (c batchRetryCmd) Run(a *app) error {
	return a.changeMany(c.batchMany, "retries", c.change(ops.VerbRetry), nil)
}

type batchRollbackCmd struct {
	batchMany

	Force bool `help:"Roll back the remaining tasks even if some are past their retention."`
}

// Help gives examples.
func (batchRollbackCmd) Help() string {
	return `No task of the batch starts any more. Running tasks are asked to stop. Then the tasks that were started
and whose type has a rollback are rolled back, the last started first. The command is refused if tasks are past their
retention, because those can no longer be rolled back; with --force it rolls back the others.

Examples:

    leasehold batch rollback 17 --dry-run
    leasehold batch rollback 17 --yes --by alice
    leasehold batch rollback 17 --yes --force`
}

// Run rolls back.
func (c batchRollbackCmd) Run(a *app) error {
	change := c.change(ops.VerbRollback)
	change.Force = c.Force
	return a.changeMany(c.batchMany, "cancels or rolls back", change, nil)
}

// changeMany changes a batch as a whole. More than one task is changed only with --yes. does is the change as a verb. before is
// called first where something is changed; nil: no call.
func (a *app) changeMany(c batchMany, does string, change ops.BatchChange, before func(context.Context, dataStore) error) error {
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
				return a.print(ops.BatchChanged{Batch: b.ID, Tasks: &n, DryRun: true}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "batch %d, %s: this %s at most %s\n", b.ID, b.State, does, ops.Tasks(n))
					return err
				})
			}
			if n > 1 {
				return usagef("batch %d: this %s at most %s: confirm with --yes, or use --dry-run to change nothing", b.ID, does, ops.Tasks(n))
			}
		}
		if before != nil {
			if err := before(ctx, s); err != nil {
				return err
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
	if refused, ok := errors.AsType[*store.RefusedError](err); ok {
		return refused // which says all
	}
	if err != nil {
		return err
	}
	return a.print(ops.BatchChanged{Batch: task.BatchID(id), Became: became}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "batch %d: %s\n", id, a.batchState(store.BatchState(became)))
		return err
	})
}
