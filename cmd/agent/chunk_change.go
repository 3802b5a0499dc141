package main

import (
	"context"
	"fmt"
	"io"

	"github.com/leasehold/leasehold/internal/ops"
)

// chunksOne is what verbs share that change a plan.
type chunksOne struct {
	Name string `arg:"" help:"Name of the plan."`
	By   string `help:"Who requests it; recorded." placeholder:"WHO"`
}

// change pauses or resumes the plan, and prints what became of it.
func (c chunksOne) change(a *app, pause bool) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		changed, err := ops.PauseChunks(call, s, c.Name, pause, c.By)
		if err != nil {
			return err
		}
		return a.print(changed, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "chunks %s: %s\n", c.Name, changed.Became)
			return err
		})
	})
}

type chunksPauseCmd struct{ chunksOne }

// Help gives examples.
func (chunksPauseCmd) Help() string {
	return "Chunks that are planned are run as ever: stop them with `leasehold chunks cancel`.\n\nExamples:\n\n" +
		"    leasehold chunks pause events --by alice"
}

// Run pauses.
func (c chunksPauseCmd) Run(a *app) error { return c.change(a, true) }

type chunksResumeCmd struct{ chunksOne }

// Help gives examples.
func (chunksResumeCmd) Help() string {
	return `Where the batch of the pass was cancelled or rolled back, the pass goes on from where it stands, in another batch.

Examples:

    leasehold chunks resume events`
}

// Run resumes.
func (c chunksResumeCmd) Run(a *app) error { return c.change(a, false) }

// chunksPass is what verbs share that change the tasks of a pass.
type chunksPass struct {
	Name   string `arg:"" help:"Name of the plan."`
	Pass   int    `help:"Number of the pass; by default the newest that has a batch." placeholder:"N"`
	By     string `help:"Who requests it; recorded, and passed to running tasks." placeholder:"WHO"`
	Yes    bool   `help:"Confirm a change of more than one task."`
	DryRun bool   `help:"Change nothing; print the maximum number of tasks that would change."`
}

// change changes the batch of the pass.
func (c chunksPass) change(a *app, does string, change ops.BatchChange) error {
	if c.Pass < 0 {
		return usagef("--pass %d: passes count from 1", c.Pass)
	}
	if err := change.Check(); err != nil {
		return err
	}
	many := batchMany{By: c.By, Yes: c.Yes, DryRun: c.DryRun}
	err := a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		id, err := ops.ChunkBatch(call, s, c.Name, c.Pass)
		many.ID = batchID(id)
		return err
	})
	if err != nil {
		return err
	}
	var before func(ctx context.Context, s dataStore) error
	if ops.StopsChunks(change.Verb) {
		before = func(ctx context.Context, s dataStore) error {
			call, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			_, err := ops.PauseChunks(call, s, c.Name, true, c.By)
			return err
		}
	}
	return a.changeMany(many, does, change, before)
}

type chunksCancelCmd struct{ chunksPass }

// Help gives examples.
func (chunksCancelCmd) Help() string {
	return `The plan is paused, and the batch of the pass cancelled, as ` + "`leasehold batch cancel`" + ` does. Rows of the table that are
left over are planned by a later pass, once the plan is resumed and if it follows its table.

Examples:

    leasehold chunks cancel events --dry-run
    leasehold chunks cancel events --yes --by alice`
}

// Run cancels.
func (c chunksCancelCmd) Run(a *app) error {
	return c.change(a, "cancels", ops.BatchChange{Verb: ops.VerbCancel, By: c.By})
}

type chunksRetryCmd struct{ chunksPass }

// Help gives examples.
func (chunksRetryCmd) Help() string {
	return `Failed chunks of the pass return to waiting, as with ` + "`leasehold batch retry`" + `. A range that is held because it failed in three
passes in a row is run again by this, too: its task is in the last pass that planned it.

Examples:

    leasehold chunks retry events --dry-run
    leasehold chunks retry events --pass 3 --yes`
}

// Run retries.
func (c chunksRetryCmd) Run(a *app) error {
	return c.change(a, "retries", ops.BatchChange{Verb: ops.VerbRetry, By: c.By})
}

type chunksRollbackCmd struct {
	chunksPass

	Force bool `help:"Roll back the remaining chunks even if some are past their retention."`
}

// Help gives examples.
func (chunksRollbackCmd) Help() string {
	return `The plan is paused, and the batch of the pass rolled back, as ` + "`leasehold batch rollback`" + ` does.

Examples:

    leasehold chunks rollback events --dry-run
    leasehold chunks rollback events --pass 3 --yes --by alice`
}

// Run rolls back.
func (c chunksRollbackCmd) Run(a *app) error {
	return c.change(a, "cancels or rolls back", ops.BatchChange{Verb: ops.VerbRollback, By: c.By, Force: c.Force})
}
