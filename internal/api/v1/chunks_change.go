package v1

import (
	"math"
	"net/http"

	"github.com/leasehold/leasehold/internal/ops"
)

// pauseChunks has agents plan nothing more of a plan, or go on.
func (a *API) pauseChunks(pause bool) handler {
	return func(c *call) (any, error) {
		s, name, by, err := c.named("name", nil)
		if err != nil {
			return nil, err
		}
		return noneOf(ops.PauseChunks(c.ctx, s, name, pause, by))
	}
}

// changeChunks requests a change of the chunks of a pass. Where it stops them, the plan is paused first.
func (a *API) changeChunks(verb ops.Verb) handler {
	return func(c *call) (any, error) {
		name, err := c.text("name")
		if err != nil {
			return nil, err
		}
		change, dryRun, pass := ops.BatchChange{Verb: verb}, false, 0
		more := members{"dry_run": &dryRun, "pass": &pass}
		if verb == ops.VerbRollback {
			more["force"] = &change.Force
		}
		if change.By, err = c.change(more); err != nil {
			return nil, err
		}
		if pass < 0 || pass > math.MaxInt32 {
			return nil, bad(http.StatusBadRequest, "pass %d: passes count from 1", pass)
		}
		if err := change.Check(); err != nil {
			return nil, err
		}
		s, err := c.work()
		if err != nil {
			return nil, err
		}
		id, err := ops.ChunkBatch(c.ctx, s, name, pass)
		if err == nil && !dryRun && ops.StopsChunks(verb) {
			_, err = ops.PauseChunks(c.ctx, s, name, true, change.By)
		}
		if err != nil {
			return nil, err
		}
		return c.changed(s, id, change, dryRun)
	}
}
