package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

// check prints whether something is as it should be.
func (p *scenario) check(well bool, format string, args ...any) {
	if !well {
		p.wrong++
	}
	p.Line("%s %s", p.Mark(well), fmt.Sprintf(format, args...))
}

// verify asks both databases what has happened.
func (p *scenario) verify(ctx context.Context) error {
	p.Say("The proof, in SQL:")
	for _, check := range []func(context.Context) error{p.onceEach, p.noGap, p.allSucceeded, p.proven} {
		if err := check(ctx); err != nil {
			return err
		}
	}
	return nil
}

// onceEach wants each event to have been marked once.
func (p *scenario) onceEach(ctx context.Context) error {
	const query = `SELECT status, times, count(*) FROM event GROUP BY status, times`
	p.Line("events.db=> %s", query)
	rows, err := p.app.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // it was read
	groups, once := 0, int64(0)
	for rows.Next() {
		var status, times, n int64
		if err := rows.Scan(&status, &times, &n); err != nil {
			return err
		}
		p.Line("             %d | %d | %d", status, times, n)
		if groups++; status == 1 && times == 1 {
			once = n
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	total := p.app.total.Load()
	p.check(groups == 1 && once == total, "each of %s events was marked once, also the %s that were added meanwhile",
		thousands(total), thousands(total-int64(p.rows)))
	marked, err := number(ctx, p.app.DB, `SELECT sum(events) FROM journal`)
	p.check(marked == total, "the requests that marked them counted as many: %s", thousands(marked))
	return err
}

// noGap wants each range to begin where the one before ended.
func (p *scenario) noGap(ctx context.Context) error {
	const query = `
SELECT count(*) FROM (
    SELECT payload ->> 'after' AS starts, lag(payload ->> 'through') OVER (ORDER BY id) AS before
    FROM tasks WHERE type = 'event.process' AND payload ->> 'pass' = 1
) WHERE starts IS NOT before`
	apart, err := number(ctx, p.store, query)
	if err != nil {
		return err
	}
	chunks, err := number(ctx, p.store, `SELECT count(*) FROM tasks WHERE type = 'event.process' AND payload ->> 'pass' = 1`)
	p.check(apart == 0 && chunks > 1, "the first pass has %s chunks, and each begins where the one before ended", thousands(chunks))
	return err
}

// allSucceeded wants each task to have succeeded, and those of the killed agent at a later attempt.
func (p *scenario) allSucceeded(ctx context.Context) error {
	err := stage.Until(ctx, "every task has ended", func() bool {
		live, err := number(ctx, p.store, `SELECT count(*) FROM tasks WHERE finished_at IS NULL`)
		return err == nil && live == 0
	})
	if err != nil {
		return err
	}
	others, err := number(ctx, p.store, `SELECT count(*) FROM tasks WHERE state <> 'succeeded'`)
	if err != nil {
		return err
	}
	tasks, err := number(ctx, p.store, `SELECT count(*) FROM tasks`)
	if err != nil {
		return err
	}
	p.check(others == 0, "all %s tasks have succeeded", thousands(tasks))
	again, err := number(ctx, p.store, `SELECT count(*) FROM tasks WHERE attempt > 1`)
	p.check(again > 0, "%s of them at their second attempt: agent-2 was killed during the first", thousands(again))
	return err
}

// proven asks Leasehold the same.
func (p *scenario) proven(ctx context.Context) error {
	p.Say("And what Leasehold says. Each pass that is planned to its end has left a row in its ledger:")
	p.Line("$ leasehold chunks verify events")
	out, err := p.Leasehold(ctx, "chunks", "verify", "events")
	for line := range strings.Lines(out) {
		p.Line("%s", strings.TrimRight(line, " \n"))
	}
	return err
}

// list shows what an operator sees of it.
func (p *scenario) list(ctx context.Context) error {
	p.Say("And what an operator sees of it. Each pass over the table is a batch:")
	p.Line("$ leasehold batch list")
	out, err := p.Leasehold(ctx, "batch", "list")
	for line := range strings.Lines(out) {
		p.Line("%s", strings.TrimRight(line, " \n"))
	}
	return err
}
