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
		return noBatch(c.ID, a.watchBatch(ctx, s, task.BatchID(c.ID), time.Duration(c.Timeout)))
	})
}

// How often a batch is looked at.
const (
	watchFirst    = 50 * time.Millisecond // right after its state has changed
	watchLongest  = time.Second
	watchShare    = 4                // it rests at least this many times as long as a look took
	watchFailures = 2 * time.Second  // between looks at what went wrong
	watchTrouble  = 30 * time.Second // a store that fails for so long is an error
	kindsWatched  = 3                // of failures
)

// watchBatch follows a batch to its end. Its error carries the exit code of what became of it.
func (a *app) watchBatch(parent context.Context, s ops.Batches, id task.BatchID, timeout time.Duration) error {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	w := &watching{app: a, store: s, id: id, screen: a.newScreen(a.out, a.terminal && a.cli.Output == "table")}
	err := w.follow(ctx)
	switch {
	case err == nil:
		return batchVerdict(w.last.State)
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &failure{exitCancelled, fmt.Errorf("batch %d has not ended after %s", id, timeout)}
	}
	return fmt.Errorf("interrupted; batch %d continues", id)
}

// batchVerdict is the exit code for what became of a batch.
func batchVerdict(s ops.BatchState) error {
	switch s {
	case ops.BatchSucceeded:
		return nil
	case ops.BatchCancelled:
		return &failure{code: exitCancelled}
	}
	return &failure{code: exitTask}
}

// watching is a watch under way.
type watching struct {
	app    *app
	store  ops.Batches
	id     task.BatchID
	screen *screen

	last     *ops.BatchInfo // as last seen; nil: never
	told     time.Time      // when it was last told of, where that is not drawn
	failures []ops.FailureGroup
	failed   int64     // tasks that had failed when failures were asked for
	asked    time.Time // when that was
	since    time.Time // since when the store fails; zero: it does not
	pace     pace
}

// follow looks at the batch again and again until it has ended.
func (w *watching) follow(ctx context.Context) error {
	pause := watchFirst
	for {
		start := time.Now()
		changed, err := w.look(ctx)
		switch {
		case err != nil:
			return err
		case w.last != nil && w.last.EndedAt != nil:
			return w.ended(ctx)
		case changed:
			pause = watchFirst
		default:
			pause = min(2*pause, watchLongest)
		}
		rest := time.NewTimer(max(pause, watchShare*time.Since(start)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return ctx.Err()
		case <-rest.C:
		}
	}
}

// look asks for the batch, and tells of it; changed: its state is another.
func (w *watching) look(ctx context.Context) (changed bool, err error) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b, err := w.store.GetBatch(call, w.id)
	switch {
	case err == nil:
		w.since = time.Time{}
	case errors.Is(err, ops.ErrNoBatch), ctx.Err() != nil:
		return false, err
	case w.since.IsZero():
		w.since = time.Now()
		w.app.log().Warn("the store is out of reach; still watching", "err", err)
		return false, nil
	case time.Since(w.since) > watchTrouble:
		return false, err
	default:
		return false, nil
	}
	changed = w.last == nil || w.last.State != b.State || w.last.Operation != b.Operation
	w.last = b
	w.pace.add(b, time.Now())
	if b.EndedAt != nil {
		return changed, nil
	}
	return changed, w.tell(call, changed)
}

// tell shows how far the batch is.
func (w *watching) tell(ctx context.Context, changed bool) error {
	due := changed || time.Since(w.told) >= tellEvery
	switch {
	case w.screen.width > 0:
		w.learnFailures(ctx, kindsWatched)
		return w.screen.draw(w.picture())
	case !due || w.app.cli.Output == "json":
		return nil
	}
	w.told = time.Now()
	if w.app.cli.Output == "jsonl" {
		return w.app.writeJSON(w.last, "")
	}
	return w.screen.draw([]string{w.line()})
}

// learnFailures asks what went wrong, if more has since. What cannot be had is left out: it is only shown beside.
func (w *watching) learnFailures(ctx context.Context, most int) {
	n := troubles(w.last)
	if n == w.failed || time.Since(w.asked) < watchFailures && w.last.EndedAt == nil {
		return
	}
	groups, err := w.store.BatchFailures(ctx, w.id, most)
	if err != nil {
		w.app.log().Debug("cannot read the failures", "batch", w.id, "err", err)
		return
	}
	w.failures, w.failed, w.asked = groups, n, time.Now()
}

// ended tells what came of the batch.
func (w *watching) ended(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	w.failed = 0 // ask anew, for more kinds
	w.learnFailures(call, failuresShown)
	if w.app.cli.Output != "table" {
		if w.failures == nil {
			w.failures = []ops.FailureGroup{}
		}
		a := w.app
		return a.print(batchShown{w.last, w.failures}, nil)
	}
	if w.screen.width > 0 {
		return w.screen.draw(w.picture())
	}
	lines := append([]string{w.line()}, failureLines(w.failures)...)
	return w.screen.draw(lines)
}
