package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// changeSchedule makes one change, and prints what became of the schedule.
func (a *app) changeSchedule(change func(ctx context.Context, s dataStore) (ops.ScheduleChanged, error)) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		changed, err := change(call, s)
		if refused, ok := errors.AsType[*store.RefusedError](err); ok {
			return refused // which says all
		}
		if err != nil {
			return err
		}
		return a.print(changed, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "schedule %s: %s\n", changed.Schedule, changed.Became)
			return err
		})
	})
}

// scheduleOne is what verbs share that change a schedule.
type scheduleOne struct {
	Name string `arg:"" help:"Name of the schedule."`
	By   string `help:"Who requests it; recorded." placeholder:"WHO"`
}

type schedulePauseCmd struct{ scheduleOne }

// Help gives examples.
func (schedulePauseCmd) Help() string {
	return "Tasks that exist are run as ever: cancel them with `leasehold task cancel`.\n\nExamples:\n\n    leasehold schedule pause nightly --by alice"
}

// Run pauses.
func (c schedulePauseCmd) Run(a *app) error {
	return a.changeSchedule(func(ctx context.Context, s dataStore) (ops.ScheduleChanged, error) {
		return ops.PauseSchedule(ctx, s, c.Name, true, c.By)
	})
}

type scheduleResumeCmd struct{ scheduleOne }

// Help gives examples.
func (scheduleResumeCmd) Help() string {
	return "Slots that passed while it was paused were missed: what becomes of them its attribute missed says.\n\n" +
		"Examples:\n\n    leasehold schedule resume nightly"
}

// Run resumes.
func (c scheduleResumeCmd) Run(a *app) error {
	return a.changeSchedule(func(ctx context.Context, s dataStore) (ops.ScheduleChanged, error) {
		return ops.PauseSchedule(ctx, s, c.Name, false, c.By)
	})
}

type scheduleRmCmd struct{ scheduleOne }

// Help gives examples.
func (scheduleRmCmd) Help() string {
	return `A schedule of a configuration can be removed while no present agent declares it.

Examples:

    leasehold schedule rm nightly --by alice`
}

// Run removes.
func (c scheduleRmCmd) Run(a *app) error {
	return a.changeSchedule(func(ctx context.Context, s dataStore) (ops.ScheduleChanged, error) {
		return ops.RemoveSchedule(ctx, s, c.Name, c.By)
	})
}

type scheduleFireCmd struct{ scheduleOne }

// Help gives examples.
func (scheduleFireCmd) Help() string {
	return `The task's slot is the time of now. Nothing of the schedule changes: it fires its own slots as ever, whether the task is still
live or not. A schedule that is paused or parked can be fired, too.

Examples:

    leasehold schedule fire nightly --by alice`
}

// Run inserts one task.
func (c scheduleFireCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		fired, typ, err := ops.FireSchedule(call, s, c.Name, c.By)
		if err != nil {
			return err
		}
		return a.print(fired, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "schedule %s: inserted a task for %s; see `leasehold task list --type %s`\n", c.Name, shortTime(fired.Slots[0]), typ)
			return err
		})
	})
}

type scheduleBackfillCmd struct {
	Name   string    `arg:"" help:"Name of the schedule."`
	From   time.Time `arg:"" help:"First moment, RFC 3339."`
	To     time.Time `arg:"" help:"Moment before which the last slot is, RFC 3339."`
	By     string    `help:"Who requests it; recorded." placeholder:"WHO"`
	Limit  int       `help:"Maximum number of slots, 1 to 100000." default:"1000" placeholder:"N"`
	Yes    bool      `help:"Insert the tasks. Without it the slots are only printed."`
	DryRun bool      `help:"Change nothing; print the slots."`
}

// Help gives examples.
func (scheduleBackfillCmd) Help() string {
	return `Inserts a task for each slot from FROM on and before TO, whether the slot has fired or not. The tasks are due at once, and
nothing of the schedule changes. Without --yes the slots are printed, and nothing is inserted.

Examples:

    leasehold schedule backfill nightly \
        2026-11-01T00:00:00Z 2026-11-08T00:00:00Z
    leasehold schedule backfill nightly --yes \
        2026-11-01T00:00:00Z 2026-11-08T00:00:00Z`
}

// Run inserts the tasks.
func (c scheduleBackfillCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > ops.MostBackfill {
		return usagef("--limit %d: use 1 to %d", c.Limit, ops.MostBackfill)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		i, _, err := ops.ReadSchedule(call, s, c.Name)
		if err != nil {
			return err
		}
		slots, err := ops.BackfillSlots(i, c.From, c.To, c.Limit)
		if err != nil {
			return err
		}
		if c.DryRun || !c.Yes {
			return a.print(ops.ScheduleChanged{Schedule: c.Name, Slots: slots, DryRun: true}, func(w io.Writer) error { return c.preview(w, slots) })
		}
		done, err := ops.InsertBackfill(ctx, s, c.Name, slots, c.By)
		if err != nil {
			return err
		}
		return a.print(ops.ScheduleChanged{Schedule: c.Name, Slots: slots, Inserted: done}, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "schedule %s: inserted %s\n", c.Name, count(done, "task"))
			return err
		})
	})
}

func (c scheduleBackfillCmd) preview(w io.Writer, slots []time.Time) error {
	for _, at := range slots {
		if _, err := fmt.Fprintln(w, shortTime(at)); err != nil {
			return err
		}
	}
	text := "nothing was inserted: confirm with --yes"
	if c.DryRun || len(slots) == 0 {
		text = "nothing was inserted"
	}
	_, err := fmt.Fprintf(w, "schedule %s: %s; %s\n", c.Name, count(len(slots), "slot"), text)
	return err
}
