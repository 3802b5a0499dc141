package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// state is what the application has in its tables of services and zones: each row by its name.
type state map[string]string

func (p *scenario) state(ctx context.Context) (state, error) {
	rows, err := p.db.QueryContext(ctx, `
SELECT name, zone || ' at ' || address || ', size ' || size || ', number ' || number FROM service
UNION ALL SELECT name, used || ' used of ' || room || ', network ' || network FROM zone`)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // it was read
	s := make(state)
	for rows.Next() {
		var name, content string
		if err := rows.Scan(&name, &content); err != nil {
			return nil, err
		}
		s[name] = content
	}
	return s, rows.Err()
}

// in counts the services in a zone.
func (s state) in(zone string) (n int) {
	for _, content := range s {
		if strings.HasPrefix(content, zone+" at ") {
			n++
		}
	}
	return n
}

// differ returns, in words, how many rows were compared and which differ.
func (s state) differ(other state) string {
	var differ []string
	for name, content := range s {
		if other[name] != content {
			differ = append(differ, fmt.Sprintf("%s was %s and is %s", name, content, other[name]))
		}
	}
	if len(differ) == 0 {
		return fmt.Sprintf("all %d of them", len(s))
	}
	slices.Sort(differ)
	return fmt.Sprintf("%d differ: %s", len(differ), strings.Join(differ[:min(3, len(differ))], "; "))
}

// effect is one entry of the application's journal.
type effect struct {
	task           int64
	phase, service string
}

type journal []effect

// journal reads the effects of a batch's tasks, in the order in which they happened.
func (p *scenario) journal(ctx context.Context, batch int64) (j journal, err error) {
	rows, err := p.db.QueryContext(ctx, `
SELECT task, phase, service FROM journal WHERE task IN (SELECT id FROM tasks WHERE batch_id = $1) ORDER BY n`, batch)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // it was read
	for rows.Next() {
		var e effect
		if err := rows.Scan(&e.task, &e.phase, &e.service); err != nil {
			return nil, err
		}
		j = append(j, e)
	}
	return j, rows.Err()
}

// services lists whose effects of a phase there are, in their order.
func (j journal) services(phase string) (all []string) {
	for _, e := range j {
		if e.phase == phase {
			all = append(all, e.service)
		}
	}
	return all
}

// onceEach wants each move to have been made once, and moved back once or not at all.
func (p *scenario) onceEach(ctx context.Context, j journal, back bool) error {
	runs, rollbacks := make(map[int64]int), make(map[int64]int)
	for _, e := range j {
		if e.phase == "run" {
			runs[e.task]++
		} else {
			rollbacks[e.task]++
		}
	}
	well := back == (len(rollbacks) > 0)
	for task, n := range runs {
		well = well && n == 1 && (!back || rollbacks[task] == 1)
	}
	for task, n := range rollbacks {
		well = well && n == 1 && runs[task] == 1
	}
	var lost struct{ Answers int }
	if err := p.ask(ctx, http.MethodGet, "/lost", nil, &lost); err != nil {
		return err
	}
	what := "moved once"
	if back {
		what = "moved once and moved back once"
	}
	p.check(well, "each of %d was %s, although %d answers were lost after the commit", len(runs), what, lost.Answers-p.lost)
	p.lost = lost.Answers
	return nil
}

// newestFirst wants what was moved last to be moved back first. Eight at once are on their way, and some wait inside of
// the agent: so an order exact to the place is not to be had.
func (p *scenario) newestFirst(j journal) {
	moved, back := j.services("run"), j.services("rollback")
	slices.Reverse(moved)
	place := make(map[string]int)
	for i, service := range moved {
		place[service] = i
	}
	furthest := 0
	for i, service := range back {
		furthest = max(furthest, place[service]-i, i-place[service])
	}
	if len(back) < 6 {
		p.check(false, "%d services were moved back", len(back))
		return
	}
	p.check(furthest <= 4*workers, "the newest first: %s … %s (no one further from its place in that order than %d)",
		strings.Join(back[:3], ", "), strings.Join(back[len(back)-3:], ", "), furthest)
}

// leftAlone wants nothing to have been done to what was moved by hand.
func (p *scenario) leftAlone(j journal, now state) {
	well := true
	for service, there := range byHand() {
		well = well && strings.HasPrefix(now[service], there.Zone+" at "+there.Address+",") &&
			!slices.ContainsFunc(j, func(e effect) bool { return e.service == service })
	}
	names := slices.Sorted(maps.Keys(byHand()))
	p.check(well, "%s are where they were put by hand, and nothing was done to them", strings.Join(names, " and "))
}
