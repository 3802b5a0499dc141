package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

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
		return a.changeBatch(ctx, c.ID, func(ctx context.Context) (string, error) { return s.SealBatch(ctx, task.BatchID(c.ID)) })
	})
}

// batchMany is what verbs share that change many tasks.
type batchMany struct {
	ID     batchID `arg:"" help:"Id of the batch."`
	By     string  `help:"Who requests it; recorded, and passed to running tasks." placeholder:"WHO"`
	Yes    bool    `help:"Confirm a change of more than one task."`
	DryRun bool    `help:"Change nothing; print the maximum number of tasks that would change."`
}

type batchCancelCmd struct{ batchMany }

// Help gives examples.
func (batchCancelCmd) Help() string {
	return `Once this command has returned, no task of the batch starts. Running tasks are asked to stop, and may still finish; tasks that
were started and have a rollback are rolled back. Agents carry this out in steps.

Examples:

    leasehold batch cancel 17 --dry-run
    leasehold batch cancel 17 --yes --by alice`
}

// Run cancels.
func (c batchCancelCmd) Run(a *app) error {
	affected := func(b *ops.BatchInfo) int64 { return b.Waiting + b.Running }
	return a.changeMany(c.batchMany, "cancels", affected, func(ctx context.Context, s dataStore, id task.BatchID) (string, error) {
		return s.CancelBatch(ctx, id, c.By)
	})
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
	affected := func(b *ops.BatchInfo) int64 { return b.Failed + b.RolledBack }
	return a.changeMany(c.batchMany, "retries", affected, func(ctx context.Context, s dataStore, id task.BatchID) (string, error) {
		return s.RetryBatch(ctx, id, c.By)
	})
}

type batchRollbackCmd struct {
	batchMany

	Force bool `help:"Roll back the remaining tasks even if some are past their retention."`
}

// Help gives examples.
func (batchRollbackCmd) Help() string {
	return `No task of the batch starts any more. Running tasks are asked to stop. Then every task that was started is rolled back, the
newest first. The command is refused if tasks are past their retention, because those can no longer be rolled back; with
--force it rolls back the others.

Examples:

    leasehold batch rollback 17 --dry-run
    leasehold batch rollback 17 --yes --by alice
    leasehold batch rollback 17 --yes --force`
}

// Run rolls back.
func (c batchRollbackCmd) Run(a *app) error {
	affected := func(b *ops.BatchInfo) int64 { return b.Waiting + b.Running + b.Succeeded + b.Failed + b.Cancelled }
	return a.changeMany(c.batchMany, "cancels or rolls back", affected, func(ctx context.Context, s dataStore, id task.BatchID) (string, error) {
		return s.RollbackBatch(ctx, id, c.By, c.Force)
	})
}

// changeMany changes a batch as a whole: more than one task only if that was said to be meant. does says what it does, and
// affected how many tasks that concerns, at the most.
func (a *app) changeMany(
	c batchMany, does string, affected func(*ops.BatchInfo) int64, change func(context.Context, dataStore, task.BatchID) (string, error),
) error {
	if err := ops.CheckBy(c.By); err != nil {
		return err
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		if c.DryRun || !c.Yes {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			b, err := s.GetBatch(call, task.BatchID(c.ID))
			if err != nil {
				return noBatch(c.ID, err)
			}
			n := affected(b)
			if c.DryRun {
				return a.print(batchChanged{Batch: b.ID, Tasks: &n, DryRun: true}, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "batch %d, %s: this %s at most %s\n", b.ID, b.State, does, plural(n))
					return err
				})
			}
			if n > 1 {
				return usagef("batch %d: this %s at most %s: confirm with --yes, or use --dry-run to change nothing", b.ID, does, plural(n))
			}
		}
		return a.changeBatch(ctx, c.ID, func(ctx context.Context) (string, error) { return change(ctx, s, task.BatchID(c.ID)) })
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
		return noBatch(id, err)
	}
	return a.print(batchChanged{Batch: task.BatchID(id), Became: became}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "batch %d: %s\n", id, a.batchState(ops.BatchState(became)))
		return err
	})
}

// plural is "1 task" or "12 tasks".
func plural(n int64) string {
	if n == 1 {
		return "1 task"
	}
	return thousands(n) + " tasks"
}

// thousands writes a number as people read it: 1,234,567.
func thousands(n int64) string {
	digits := fmt.Sprint(n)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 && digits[i-1] != '-' {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
