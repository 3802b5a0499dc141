package v1

import (
	"fmt"
	"net/http"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func (a *API) bulkRoutes() []route {
	return []route{
		{"POST /tasks/cancel", a.changeMatching(ops.VerbCancel)},
		{"POST /tasks/retry", a.changeMatching(ops.VerbRetry)},
		{"POST /tasks/rollback", a.changeMatching(ops.VerbRollback)},
		{"GET /changes/{id}", a.getChange},
		{"POST /changes/{id}/stop", a.stopChange},
	}
}

// changeMatching starts a change of all tasks that match a filter, which agents carry on; or counts them.
func (a *API) changeMatching(verb ops.Verb) handler {
	return func(c *call) (any, error) {
		r := store.BulkRequest{Verb: string(verb)}
		var states []string
		var batch int64
		var since string
		var dryRun bool
		var err error
		f := &r.Filter
		if r.By, err = c.change(members{
			"type": &f.Type, "states": &states, "labels": &f.Labels, "batch": &batch, "error_signature": &f.Signature, "since": &since,
			"reason": &r.Reason, "dry_run": &dryRun,
		}); err != nil {
			return nil, err
		}
		f.Batch = task.BatchID(batch)
		if f.States, err = ops.ParseStates(states); err != nil {
			return nil, err
		}
		if since != "" {
			at, err := ops.ParseSince(since, time.Now())
			if err != nil {
				return nil, err
			}
			f.Since = &at
		}
		if dryRun {
			if err := c.take(a.bounds.long, 1); err != nil {
				return nil, err
			}
			c.longer(longTimeout)
			return noneOf(ops.PreviewBulk(c.ctx, a.Bulk, r))
		}
		s, err := c.work()
		if err != nil {
			return nil, err
		}
		id, err := ops.StartBulk(c.ctx, s, r)
		if err != nil {
			return nil, err
		}
		c.status = http.StatusAccepted
		c.w.Header().Set("Location", fmt.Sprintf("%s/changes/%d", Prefix, id))
		return noneOf(ops.GetBulk(c.ctx, s, id))
	}
}

func (a *API) getChange(c *call) (any, error) {
	id, err := c.id("change")
	if err != nil {
		return nil, err
	}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	return noneOf(ops.GetBulk(c.ctx, s, id))
}

func (a *API) stopChange(c *call) (any, error) {
	id, err := c.id("change")
	if err != nil {
		return nil, err
	}
	by, err := c.change(nil)
	if err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	return noneOf(ops.StopBulk(c.ctx, s, id, by))
}
