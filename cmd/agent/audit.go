package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

type auditCmd struct {
	RequestedBy string  `help:"Only what was requested in this name." placeholder:"WHO"`
	Verb        string  `help:"Only this verb, such as cancel." placeholder:"VERB"`
	Type        string  `help:"Only changes of this type as a whole." placeholder:"TYPE"`
	Task        int64   `help:"Only changes of this task." placeholder:"ID"`
	Batch       batchID `help:"Only changes of this batch." placeholder:"N"`
	Since       string  `help:"Only from this time on: an age such as 2h, or a time." placeholder:"WHEN"`
	Limit       int     `help:"Maximum number of rows, 1 to 1000." default:"50" placeholder:"N"`

	Before int64 `help:"Only entries with a lower id: the next page." placeholder:"ID"`
}

// Help gives examples.
func (auditCmd) Help() string {
	return `One line for each request that changed something, newest first: by whom, what, of what, and what became of it. BY is what the caller
has said; with -o json, role is the database role that the caller used (PostgreSQL).

A search looks through 100,000 entries at most, and for a moment; those of a task or a batch are found at once. Where it ends before the list is
full, a line says how far back it has looked, and with which --before to go on.

Examples:

    leasehold audit
    leasehold audit --requested-by alice --verb cancel --since 2h
    leasehold audit --task 4211 -o json`
}

// Run lists the audit.
func (c auditCmd) Run(a *app) error {
	switch {
	case c.Limit < 1 || c.Limit > 1000:
		return usagef("--limit %d: use 1 to 1000", c.Limit)
	case c.Before < 0:
		return usagef("--before %d: use the id of an entry", c.Before)
	case c.Task < 0:
		return usagef("--task %d: use the id of a task", c.Task)
	}
	f := store.AuditFilter{
		RequestedBy: c.RequestedBy, Verb: c.Verb, Type: c.Type, Task: task.ID(c.Task), Batch: task.BatchID(c.Batch), Before: c.Before, Limit: c.Limit,
	}
	if c.Since != "" {
		at, err := ops.ParseSince(c.Since, time.Now())
		if err != nil {
			return usagef("--since: %w", err)
		}
		f.Since = &at
	}
	return a.withTables(func(ctx context.Context, s dataStore) error {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		page, err := ops.PageAudit(call, s, f)
		if err != nil {
			return err
		}
		if a.cli.Output != "table" {
			err = printList(a, page.Entries, nil, nil)
		} else {
			err = writeColumns(a.out, auditColumns(page.Entries, time.Now()), a.tableWidth())
		}
		if err != nil || page.LookedBack == nil {
			return err
		}
		_, err = fmt.Fprintf(a.err, "looked back to entry %d, of %s; for older ones: --before %[1]d\n", page.LookedBack.ID, ops.Time(page.LookedBack.At))
		return err
	})
}

// auditColumns are the list's columns, in words: JSON has the values.
func auditColumns(list []store.AuditEntry, now time.Time) []*column {
	id, age, by := &column{name: "ID", right: true, drop: 2}, &column{name: "AGE"}, &column{name: "BY", least: 10}
	verb, about := &column{name: "VERB"}, &column{name: "ABOUT", least: 22}
	answer, reason := &column{name: "ANSWER", least: 12}, &column{name: "REASON", least: 10, drop: 1}
	const most, mostReason = 60, 200
	for i := range list {
		e := &list[i]
		for c, cell := range map[*column]string{
			id: strconv.FormatInt(e.ID, 10), age: ops.Age(now.Sub(e.At)), by: ops.OneLine(e.RequestedBy, most), verb: ops.OneLine(e.Verb, most),
			about: ops.OneLine(ops.AuditSubject(e), most), answer: ops.OneLine(e.Answer, most), reason: ops.OneLine(e.Reason, mostReason),
		} {
			c.cells = append(c.cells, cell)
		}
	}
	return []*column{id, age, by, verb, about, answer, reason}
}
