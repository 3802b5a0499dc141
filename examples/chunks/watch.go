package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

const (
	lookEvery = 200 * time.Millisecond
	sayEvery  = 4 * time.Second // what cannot be drawn over needs fewer lines
	window    = 2 * time.Second // of the rate that is shown
)

// moment is how far the processing is at one moment.
type moment struct {
	at    time.Time
	done  int64 // events
	total int64
	chunk int64 // events of the newest chunk
}

// moment looks at the application's tables, and at the newest task.
func (p *scenario) moment(ctx context.Context) (m moment, err error) {
	m.at, m.total = time.Now(), p.app.total.Load()
	if m.done, err = number(ctx, p.app.DB, `SELECT coalesce(sum(events), 0) FROM journal`); err != nil {
		return m, err
	}
	m.chunk, err = number(ctx, p.store, `
SELECT coalesce((SELECT payload ->> 'rows' FROM tasks WHERE type = 'event.process' ORDER BY id DESC LIMIT 1), 0)`)
	return m, err
}

// watch draws how far the processing is until something is so, and returns how many events a second were processed meanwhile.
func (p *scenario) watch(ctx context.Context, until func(moment) bool) (rate float64, err error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var recent []moment // of the window
	var said time.Time
	var first moment
	for {
		m, err := p.moment(ctx)
		if err == nil && p.program.Ended() {
			err = errors.New("the processor has ended")
		}
		if err != nil {
			return 0, err
		}
		if first.at.IsZero() {
			first, said = m, m.at
		}
		recent = append(recent, m)
		for m.at.Sub(recent[0].at) > window {
			recent = recent[1:]
		}
		over := until(m)
		if stage.Live() || over || m.at.Sub(said) >= sayEvery {
			p.draw(m, perSecond(recent[0], m))
			said = m.at
		}
		if over {
			if stage.Live() {
				fmt.Println()
			}
			return perSecond(first, m), nil
		}
		select {
		case <-ctx.Done():
			return 0, errors.Join(errors.New("some events were not processed yet"), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// perSecond is how many events a second were processed from one moment to another.
func perSecond(from, to moment) float64 {
	took := to.at.Sub(from.at).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(to.done-from.done) / took
}

// draw draws the bar, over the one before or on a line of its own.
func (p *scenario) draw(m moment, rate float64) {
	const width = 24
	full := int(min(width*m.done/max(m.total, 1), width))
	bar := p.Paint(text.FgGreen, strings.Repeat("█", full)) + p.Paint(text.Faint, strings.Repeat("░", width-full))
	agents := fmt.Sprintf("%d agents", p.running())
	line := fmt.Sprintf("%s %3d %%  %6s/s  %8s  chunks of %s", bar, 100*m.done/max(m.total, 1), thousands(int64(rate)),
		strings.Replace(agents, "1 agents", "1 agent", 1), thousands(m.chunk))
	if stage.Live() {
		fmt.Printf("\r\x1b[K           %s", line)
		return
	}
	p.Line("%s", line)
}

// thousands is a number with commas.
func thousands(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
