package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

// check prints whether something is as it should be.
func (p *scenario) check(well bool, format string, args ...any) {
	if !well {
		p.wrong++
	}
	p.Line("%s %s", p.Mark(well), fmt.Sprintf(format, args...))
}

// expected is how many tasks should be in a state.
type expected struct {
	state string
	n     int
	what  string
}

// counts prints how many tasks of a batch are in which state, and wants the batch to say the same.
func (p *scenario) counts(ctx context.Context, batch int64, state string, all []expected) error {
	found := make(map[string]int)
	rows, err := p.db.QueryContext(ctx, `SELECT state, count(*) FROM tasks WHERE batch_id = $1 GROUP BY state`, batch)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // it was read
	for rows.Next() {
		var state string
		var n int
		if err := rows.Scan(&state, &n); err != nil {
			return err
		}
		found[state] = n
	}
	if err := rows.Err(); err != nil {
		return err
	}
	t := table.NewWriter()
	style := table.StyleLight
	style.Options.SeparateRows, style.Format.Header = false, text.FormatDefault
	t.SetStyle(style)
	t.AppendHeader(table.Row{"", "state", "tasks", ""})
	for _, e := range all {
		if found[e.state] != e.n {
			p.wrong++
			e.what = p.Paint(text.FgRed, fmt.Sprintf("should be %d: ", e.n)) + e.what
		}
		t.AppendRow(table.Row{p.Mark(found[e.state] == e.n), e.state, found[e.state], e.what})
		delete(found, e.state)
	}
	for state, n := range found {
		p.wrong++
		t.AppendRow(table.Row{p.Mark(false), state, n, p.Paint(text.FgRed, "should be none")})
	}
	for line := range strings.Lines(t.Render()) {
		p.Line("%s", strings.TrimRight(line, "\n"))
	}
	return p.sameCounts(ctx, batch, state, all)
}

// sameCounts wants a batch to be in a state, and to count as many tasks as there are.
func (p *scenario) sameCounts(ctx context.Context, batch int64, state string, all []expected) error {
	n := make(map[string]int)
	var is string
	var total, live, succeeded, failed, cancelled, rolledBack int
	err := p.db.QueryRowContext(ctx, `
SELECT state, total, live, succeeded, failed, cancelled, rolled_back FROM batches WHERE id = $1`, batch).
		Scan(&is, &total, &live, &succeeded, &failed, &cancelled, &rolledBack)
	if err != nil {
		return err
	}
	for _, e := range all {
		n[e.state] = e.n
	}
	well := is == state && total == services && live == 0 && failed == 0 &&
		succeeded == n["succeeded"] && cancelled == n["cancelled"] && rolledBack == n["rolled_back"]
	p.check(well, "the batch is %s, and has the same counts", is)
	return nil
}

// whatFailed shows what was wrong with the task that failed.
func (p *scenario) whatFailed(ctx context.Context, batch int64) error {
	var id int64
	row := p.db.QueryRowContext(ctx, `
SELECT id FROM tasks WHERE batch_id = $1 AND payload ->> 'service' = $2`, batch, large)
	if err := row.Scan(&id); err != nil {
		return err
	}
	out, err := p.Leasehold(ctx, "task", "show", fmt.Sprint(id), "-o", "json")
	if err != nil {
		return err
	}
	var shown struct {
		History []struct{ Outcome, Error string }
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		return err
	}
	if len(shown.History) == 0 {
		return fmt.Errorf("task %d has no history", id)
	}
	first := shown.History[0]
	p.Line("%s was %s: %s", large, first.Outcome, first.Error)
	p.check(first.Outcome == "rejected", "that turned the batch around (on_failure = 'rollback')")
	return nil
}

// notified wants the application to have been notified of the end of a batch once, with its counts.
func (p *scenario) notified(ctx context.Context, batch int64, state string) error {
	// The finish task was inserted when the batch completed. It runs as any other does.
	var rows, live int
	var problem error
	err := stage.Until(ctx, "the application was notified", func() bool {
		problem = p.db.QueryRowContext(ctx, `
SELECT count(*), count(*) - count(finished_at) FROM tasks
WHERE type = 'move.finished' AND payload -> 'batch' ->> 'id' = $1`, batch).Scan(&rows, &live)
		return problem != nil || rows > 0 && live == 0
	})
	if err := errors.Join(err, problem); err != nil {
		return err
	}
	var notified int
	var report string
	row := p.db.QueryRowContext(ctx, `SELECT notified, coalesce(report, '{}') FROM relocation WHERE batch = $1`, batch)
	if err := row.Scan(&notified, &report); err != nil {
		return err
	}
	var said struct {
		State                               string
		Total, Succeeded, Failed, Cancelled int
		RolledBack                          int `json:"rolled_back"`
	}
	if err := json.Unmarshal([]byte(report), &said); err != nil {
		return err
	}
	well := rows == 1 && notified == 1 && said.State == state && said.Total == services &&
		said.Succeeded+said.Cancelled+said.RolledBack == services
	p.check(well, "move.finished came once, in the end: %s, %d succeeded, %d failed, %d cancelled, %d rolled back",
		said.State, said.Succeeded, said.Failed, said.Cancelled, said.RolledBack)
	return nil
}
