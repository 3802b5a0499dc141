package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

type taskWaitCmd struct {
	ID      []taskID `arg:"" help:"Ids of the tasks."`
	Timeout span     `help:"Stop waiting after this time (exit 5). Default: never." placeholder:"TIME"`
}

// Help gives examples.
func (taskWaitCmd) Help() string {
	return `Exit 0 if all succeeded, 4 if one failed, 5 if one was cancelled or the wait timed out.

Examples:

    leasehold task wait 4211
    leasehold task wait 4211 4212 4213 --timeout 10m -o json`
}

// maxWaited bounds how many tasks one command looks at again and again.
const maxWaited = 1000

// Run waits.
func (c taskWaitCmd) Run(a *app) error {
	ids := numbers(c.ID)
	if len(ids) > maxWaited {
		return usagef("%d tasks: at most %d can be awaited at once", len(ids), maxWaited)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		return a.wait(ctx, s, ids, time.Duration(c.Timeout))
	})
}

// wait follows tasks to their end and reports how each goes. Its error carries the exit code of what became of them.
func (a *app) wait(ctx context.Context, s ops.Store, ids []task.ID, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	out := a.newLive()
	if len(ids) > 1 {
		out.width = 0 // several tasks cannot share one line
	}
	var broken error
	watch := ops.Watch{Trouble: func(err error) { a.log().Warn("the store is out of reach; still waiting", "err", err) }}
	if a.cli.Output == "table" {
		watch.Changed = func(i ops.Task) { broken = errors.Join(broken, out.show(a.summaryLine(&i))) }
		if out.width > 0 { // elsewhere each would be a line of its own
			watch.Progressed = watch.Changed
		}
	}
	infos, err := ops.Wait(ctx, s, ids, watch)
	if err := errors.Join(broken, out.end()); err != nil {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return &failure{exitCancelled, fmt.Errorf("not finished after %s: %s", timeout, unfinished(ids, infos))}
	}
	if err != nil {
		return err
	}
	if err := a.showEnds(infos); err != nil {
		return err
	}
	return endCode(ops.EndOf(infos))
}

// summaryLine is how a task stands, and in short what came before, with its number in front.
func (a *app) summaryLine(i *ops.Task) string {
	return fmt.Sprintf("task %d: %s", i.ID, ops.Now(i))
}

// showEnds prints what came of the tasks: all of it as JSON; for people, the results, and why and how one failed.
func (a *app) showEnds(infos []*ops.Task) error {
	switch {
	case a.cli.Output == "table":
	case len(infos) == 1:
		return a.print(infos[0], nil)
	default:
		return printList(a, infos, nil, nil)
	}
	const most = 1000
	for _, i := range infos {
		if len(i.Result) > 0 {
			if _, err := fmt.Fprintf(a.out, "result: %s\n", cut(compactJSON(i.Result), most)); err != nil {
				return err
			}
		}
		if i.State != task.StateSucceeded {
			if err := section(a.out, fmt.Sprintf("output of task %d", i.ID), i.Output); err != nil {
				return err
			}
		}
	}
	return nil
}

// unfinished names the tasks that have not ended.
func unfinished(ids []task.ID, infos []*ops.Task) string {
	left := ops.Unfinished(ids, infos)
	if len(left) == 1 {
		return fmt.Sprintf("task %d", left[0])
	}
	return fmt.Sprintf("%d of %d tasks (first %d)", len(left), len(ids), left[0])
}

// endCode carries the exit code for what became of tasks or of a batch; nil: all is well.
func endCode(e ops.End) error {
	switch e {
	case ops.EndSucceeded:
		return nil
	case ops.EndCancelled:
		return &failure{code: exitCancelled}
	}
	return &failure{code: exitTask}
}
