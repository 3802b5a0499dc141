package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/leasehold/leasehold/examples/internal/stage"
)

// moment is where a batch and the services stand at one moment.
type moment struct {
	state string
	ended bool
	there int // services in the second zone
}

// moment looks at the batch as any application may, and at the application's own table.
func (p *scenario) moment(ctx context.Context, batch int64) (m moment, err error) {
	err = p.db.QueryRowContext(ctx, `
SELECT state, ended_at IS NOT NULL, (SELECT count(*) FROM service WHERE zone = $1)
FROM batches WHERE id = $2`, to, batch).Scan(&m.state, &m.ended, &m.there)
	return m, err
}

// watch draws how the services go over, and perhaps back, until the batch has ended: a line for each state that it is in.
func (p *scenario) watch(ctx context.Context, batch int64) error {
	var last moment
	for !last.ended {
		m, err := p.moment(ctx, batch)
		if err != nil {
			return err
		}
		switch {
		case m.state != last.state:
			p.draw(m, last.state != "")
		case stage.Live(): // what cannot be drawn over needs no more
			p.draw(m, false)
		}
		last = m
		timer := time.NewTimer(60 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("batch %d was still %s: %w", batch, m.state, context.Cause(ctx))
		}
	}
	fmt.Println()
	return nil
}

// draw draws the bar, over the one before or on a line of its own.
func (p *scenario) draw(m moment, anew bool) {
	if anew {
		fmt.Println()
	} else if stage.Live() {
		fmt.Print("\r\x1b[K")
	}
	fmt.Print("           ", p.bar(m))
}

// bar shows how many services stand where.
func (p *scenario) bar(m moment) string {
	const width = 50
	there := width * m.there / services
	colour := text.FgGreen
	if strings.HasPrefix(m.state, "roll") {
		colour = text.FgYellow
	}
	return fmt.Sprintf("%s %3d %s%s %-3d %s  %s", from, services-m.there, p.Paint(text.Faint, strings.Repeat("░", width-there)),
		p.Paint(colour, strings.Repeat("█", there)), m.there, to, p.Paint(colour, m.state))
}
