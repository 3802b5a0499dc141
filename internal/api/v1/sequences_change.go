package v1

import (
	"net/http"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// longTimeout bounds a change of many rows, which is made step by step.
const longTimeout = 2 * time.Minute

// resolveSequence resolves the failure that blocks a sequence.
func (a *API) resolveSequence(retry bool) handler {
	return func(c *call) (any, error) {
		typ, name, err := c.sequence()
		if err != nil {
			return nil, err
		}
		var id task.ID
		by, err := c.change(members{"task_id": &id})
		if err != nil {
			return nil, err
		}
		if id < 0 {
			return nil, bad(http.StatusBadRequest, "invalid task_id %d", id)
		}
		s, err := c.work()
		if err != nil {
			return nil, err
		}
		return noneOf(ops.ResolveSequence(c.ctx, s, typ, name, id, retry, by))
	}
}

// cancelSequence cancels the waiting tasks of a sequence.
func (a *API) cancelSequence(c *call) (any, error) {
	typ, name, err := c.sequence()
	if err != nil {
		return nil, err
	}
	by, err := c.change(nil)
	if err == nil {
		err = c.take(a.bounds.long, 1)
	}
	if err != nil {
		return nil, err
	}
	c.longer(longTimeout)
	changed, err := ops.CancelSequence(c.ctx, a.Store, typ, name, by)
	return noneOf(changed, partly(err, changed.Tasks))
}
