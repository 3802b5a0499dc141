package poll

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

const (
	// spillEvery is how often an agent looks for rows that have waited too long for those of their region.
	spillEvery = time.Second
	// spillShare: a look may take a twentieth of the time. It may be long where very many rows of a region have come and gone under an old
	// snapshot.
	spillShare = 20
	// spillSay is the least time between two lines in the log: while a region is away, more of its rows are late every second.
	spillSay = time.Minute
)

// spill takes rows of other regions over that have waited for longer than their types allow, until ctx ends: from then on all agents may
// claim them, and those of their own region as well. A repeat does nothing, so nothing has to be known about a call that did not answer.
func (e *Engine) spill(ctx context.Context) {
	var failed backoff
	rows, said := 0, time.Duration(0)
	for wait := spread(spillEvery); pause(ctx, e.ending, wait); {
		n, took, err := e.spillOnce(ctx)
		if rows += n; rows > 0 && (said == 0 || e.o.Clock.Now()-said >= spillSay) {
			e.log.Info("rows had waited too long for their region: any agent may take them", "rows", rows)
			rows, said = 0, e.o.Clock.Now()
		}
		if err != nil {
			wait = failed.next()
			continue
		}
		failed.reset()
		wait = spread(max(spillEvery, spillShare*min(took, callTimeout))) // longer only where the agent stood still
	}
}

// spillOnce takes over what there is, and returns how many rows, and how long the last call took. An agent that claims nothing takes nothing
// over.
func (e *Engine) spillOnce(ctx context.Context) (rows int, took time.Duration, err error) {
	g := e.declarations()
	types := g.spills()
	if len(types) == 0 || g.Workers == 0 {
		return 0, 0, nil
	}
	for n := store.SpillMost; n >= store.SpillMost && !e.cordoned.Load() && !e.Draining(); {
		start := e.o.Clock.Now()
		err := e.call(ctx, "spill", func(ctx context.Context) (err error) {
			n, err = e.o.Store.Spill(ctx, g.Region, types)
			return err
		})
		if err != nil {
			return rows, 0, err
		}
		took = e.o.Clock.Now() - start
		if n > 0 {
			rows += n
			e.o.Metrics.Spilled.Add(float64(n))
			e.wake.call()
		}
	}
	return rows, took, nil
}

// spills lists the row types of which rows may be taken over.
func (g *generation) spills() (all []store.Spill) {
	for _, t := range g.Types {
		if t.SpillAfter <= 0 {
			continue
		}
		for _, name := range t.Names() {
			all = append(all, store.Spill{Type: name, After: t.SpillAfter})
		}
	}
	return all
}
