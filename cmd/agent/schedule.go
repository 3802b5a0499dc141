package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

type scheduleCmd struct {
	List scheduleListCmd `cmd:"" help:"List schedules by name."`
	Show scheduleShowCmd `cmd:"" help:"Show a schedule with its next ten slots."`

	Fire     scheduleFireCmd     `cmd:"" help:"Insert one task of a schedule now."`
	Pause    schedulePauseCmd    `cmd:"" help:"Fire a schedule no more, until it is resumed."`
	Resume   scheduleResumeCmd   `cmd:"" help:"Fire a paused schedule again."`
	Rm       scheduleRmCmd       `cmd:"" help:"Remove a schedule. Its tasks stay."`
	Backfill scheduleBackfillCmd `cmd:"" help:"Insert the tasks of slots that have passed."`
}

type scheduleListCmd struct {
	From  string `help:"Only schedules from this name on." placeholder:"NAME"`
	Limit int    `help:"Maximum number of rows, 1 to 1000." default:"1000" placeholder:"N"`
}

// Help gives examples.
func (scheduleListCmd) Help() string {
	return "Examples:\n\n    leasehold schedule list\n    leasehold schedule list --from acme --limit 20 -o jsonl"
}

// Run lists schedules.
func (c scheduleListCmd) Run(a *app) error {
	if c.Limit < 1 || c.Limit > 1000 {
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := ops.ListSchedules(call, s, store.ScheduleFilter{From: c.From, Limit: c.Limit})
		if err != nil {
			return err
		}
		header := table.Row{"NAME", "TASK", "FIRES", "NEXT SLOT", "LAST SLOT", "LAST TASK", "RESULT", "BY", "MISSED", "NOTE"}
		return printList(a, list, header, a.scheduleRow)
	})
}

// scheduleRow is a schedule in a table.
func (a *app) scheduleRow(d ops.ScheduleDetail) table.Row {
	const most, mostWords, mostNote = 40, 60, 80
	return table.Row{
		ops.OneLine(d.Name, most), ops.OneLine(d.Task, most), ops.OneLine(d.Words, mostWords), scheduleNext(d), shortTime(d.LastSlot),
		numberOrNothing(int64(d.LastTask)), a.state(d.LastState), ops.OneLine(d.LastBy, most), numberOrNothing(d.MissedSlots),
		ops.OneLine(scheduleNote(d), mostNote),
	}
}

// scheduleNext is the next slot that fires by itself.
func scheduleNext(d ops.ScheduleDetail) string {
	if len(d.Next) == 0 || !d.PausedAt.IsZero() || !d.ParkedAt.IsZero() || d.Invalid != "" {
		return ""
	}
	return shortTime(d.Next[0].UTC)
}

// scheduleNote says why a schedule does not fire; "": it does.
func scheduleNote(d ops.ScheduleDetail) string {
	switch {
	case d.Invalid != "":
		return "invalid: " + d.Invalid
	case !d.PausedAt.IsZero() && d.PausedBy != "":
		return "paused by " + d.PausedBy
	case !d.PausedAt.IsZero():
		return "paused"
	case !d.ParkedAt.IsZero():
		return "parked: no present agent declares it"
	case !d.Queued.IsZero():
		return "slot " + shortTime(d.Queued) + " waits for the end of the last task"
	}
	return ""
}

// shortTime writes a time without a fraction where it has none; "" for zero.
func shortTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// numberOrNothing writes a number; "" for 0.
func numberOrNothing(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

type scheduleShowCmd struct {
	Name string `arg:"" help:"Name of the schedule."`
}

// Help gives examples.
func (scheduleShowCmd) Help() string {
	return "Examples:\n\n    leasehold schedule show nightly\n    leasehold schedule show nightly -o json"
}

// Run shows the schedule.
func (c scheduleShowCmd) Run(a *app) error {
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		d, err := ops.ShowSchedule(call, s, c.Name)
		if err != nil {
			return err
		}
		return a.print(d, func(w io.Writer) error { return a.showSchedule(w, d) })
	})
}

// showSchedule writes all that is known of a schedule.
func (a *app) showSchedule(w io.Writer, d ops.ScheduleDetail) error {
	const most = 400
	t := newTable(nil)
	line := func(name, value string) {
		if value != "" {
			t.AppendRow(table.Row{name, ops.OneLine(value, most)})
		}
	}
	line("schedule", d.Name)
	line("task", d.Task)
	line("fires", d.Words)
	line("note", scheduleNote(d))
	line("cron", d.Cron)
	line("every", d.Every)
	line("after", d.After)
	line("timezone", d.Timezone)
	line("payload", compactJSON(d.Payload))
	line("jitter", d.Jitter)
	line("from", d.From)
	line("until", d.Until)
	line("missed", d.Missed)
	line("catch_up", d.CatchUp)
	line("overlap", d.Overlap)
	line("source", d.Source)
	line("created", ops.Time(d.Created))
	line("paused", ops.Time(d.PausedAt))
	line("paused by", d.PausedBy)
	line("parked", ops.Time(d.ParkedAt))
	line("missed slots", numberOrNothing(d.MissedSlots))
	line("last slot", shortTime(d.LastSlot))
	line("last task", numberOrNothing(int64(d.LastTask)))
	line("  state", string(d.LastState))
	line("  outcome", string(d.LastOutcome))
	line("  error", d.LastError)
	line("  inserted", ops.Time(d.LastAt))
	line("  inserted by", d.LastBy)
	line("  ended", ops.Time(d.LastEnd))
	if err := writeTable(w, t); err != nil {
		return err
	}
	if len(d.Next) == 0 {
		return nil
	}
	slots := newTable(table.Row{"NEXT SLOT (UTC)", "LOCAL"})
	for _, n := range d.Next {
		slots.AppendRow(table.Row{shortTime(n.UTC), n.Local.Format(time.RFC3339Nano)})
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return writeTable(w, slots)
}
