package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

type batchWatchCmd struct {
	ID      batchID `arg:"" help:"Id of the batch."`
	Timeout span    `help:"Stop watching after this time (exit 5). Default: never." placeholder:"TIME"`
}

// Help gives examples.
func (batchWatchCmd) Help() string {
	return `Shows the progress of a batch: on a terminal continuously, otherwise one line for each change of its state and every ten
seconds. Ends with the batch: exit 0 if all tasks succeeded; 4 if some failed, or the batch was rolled back; 5 if it was
cancelled, or the wait timed out. An interrupt ends the command, not the batch.

Examples:

    leasehold batch watch 17
    leasehold batch watch 17 --timeout 1h -o json`
}

// Run watches.
func (c batchWatchCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		return a.watchBatch(ctx, s, task.BatchID(c.ID), time.Duration(c.Timeout))
	})
}

// kindsWatched is how many kinds of failures are drawn below a batch that goes on.
const kindsWatched = 3

// watchBatch follows a batch to its end. Its error carries the exit code of what became of it.
func (a *app) watchBatch(parent context.Context, s ops.Batches, id task.BatchID, timeout time.Duration) error {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	w := &watching{app: a, screen: a.newScreen(a.out, a.terminal && a.cli.Output == "table")}
	watch := ops.BatchWatch{
		Seen:    w.show,
		Trouble: func(err error) { a.log().Warn("the store is out of reach; still watching", "err", err) },
		Unread:  func(err error) { a.log().Debug("cannot read the failures", "batch", id, "err", err) },
	}
	if w.screen.width > 0 { // elsewhere they are shown once it has ended
		watch.Kinds = kindsWatched
	}
	last, err := ops.WatchBatch(ctx, s, id, watch)
	switch {
	case err == nil:
		if err := w.ended(last); err != nil {
			return err
		}
		return endCode(ops.EndOfBatch(last.State))
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &failure{exitCancelled, fmt.Errorf("batch %d has not ended after %s", id, timeout)}
	}
	return fmt.Errorf("interrupted; batch %d continues", id)
}

// watching prints a watch in progress.
type watching struct {
	app     *app
	screen  *screen
	printed time.Time // when the last line was written, where the batch is not drawn
}

// show prints how far the batch is.
func (w *watching) show(v *ops.BatchView) error {
	due := v.Changed || time.Since(w.printed) >= printEvery
	switch {
	case w.screen.width > 0:
		return w.screen.draw(w.picture(v))
	case !due || w.app.cli.Output == "json":
		return nil
	}
	w.printed = time.Now()
	if w.app.cli.Output == "jsonl" {
		return w.app.writeJSON(v.BatchInfo, "")
	}
	return w.screen.draw([]string{w.line(v)})
}

// ended prints what came of the batch.
func (w *watching) ended(v *ops.BatchView) error {
	a := w.app
	if a.cli.Output != "table" {
		return a.print(v.BatchDetail, nil)
	}
	if w.screen.width > 0 {
		return w.screen.draw(w.picture(v))
	}
	return w.screen.draw(append([]string{w.line(v)}, failureLines(v.Failures)...))
}
