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
)

// spill takes rows of other regions over that have waited for longer than their types allow, until ctx ends: from then on all agents may
// claim them, and those of their own region as well. A repeat does nothing, so nothing has to be known about a call that did not answer.
func (e *Engine) spill(ctx context.Context) {
	var failed backoff
	for wait := spread(spillEvery); pause(ctx, e.ending, wait); {
		took, err := e.spillOnce(ctx)
		if err != nil {
			wait = failed.next()
			continue
		}
		failed.reset()
		wait = spread(max(spillEvery, spillShare*took))
	}
}

// spillOnce takes over what there is, and returns how long it took to find nothing more. An agent that claims nothing takes nothing over.
func (e *Engine) spillOnce(ctx context.Context) (took time.Duration, err error) {
	g := e.declarations()
	types := g.spills()
	if len(types) == 0 || g.Workers == 0 {
		return 0, nil
	}
	for n := store.SpillMost; n >= store.SpillMost && !e.cordoned.Load() && !e.Draining(); {
		start := e.o.Clock.Now()
		err := e.call(ctx, "spill", func(ctx context.Context) (err error) {
			n, err = e.o.Store.Spill(ctx, g.Region, types)
			return err
		})
		if err != nil {
			return 0, err
		}
		took = e.o.Clock.Now() - start
		if n > 0 {
			e.o.Metrics.Spilled.Add(float64(n))
			e.log.Info("rows have waited too long for their region: any agent may take them now", "rows", n)
			e.wake.call()
		}
	}
	return took, nil
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
