package v1

import (
	"net/http"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// agentsOrdered is what became of sessions that were given an order.
type agentsOrdered struct {
	Agents []store.AgentOrdered `json:"agents"`
}

// orderAgent gives the sessions of a name, or one by its number, an order.
func (a *API) orderAgent(order store.AgentOrder) handler {
	return func(c *call) (any, error) {
		s, agent, by, err := c.named("agent", nil)
		if err != nil {
			return nil, err
		}
		list, err := ops.OrderAgent(c.ctx, s, agent, order, by)
		return noneOf(agentsOrdered{orNone(list)}, err)
	}
}

// changeOrphans moves or cancels the waiting tasks of a type that no present agent declares.
func (a *API) changeOrphans(move bool) handler {
	return func(c *call) (any, error) {
		typ, err := c.text("type")
		if err != nil {
			return nil, err
		}
		change, dryRun := ops.OrphanChange{Type: typ}, false
		more := members{"reason": &change.Reason, "dry_run": &dryRun}
		if move {
			more["into"] = &change.Into
		}
		if change.By, err = c.change(more); err != nil {
			return nil, err
		}
		if move && change.Into == "" {
			return nil, bad(http.StatusBadRequest, "into is missing: name the type that the tasks get")
		}
		if err := c.take(a.bounds.long, 1); err != nil {
			return nil, err
		}
		c.longer(longTimeout)
		changed, err := ops.ChangeOrphans(c.ctx, a.Store, change, dryRun)
		if dryRun {
			return noneOf(changed, err)
		}
		return noneOf(changed, partly(err, changed.Changed))
	}
}

// pauseType has all agents claim no tasks of a type, or claim them again.
func (a *API) pauseType(pause bool) handler {
	return func(c *call) (any, error) {
		var reason string
		var more members
		if pause {
			more = members{"reason": &reason}
		}
		s, typ, by, err := c.named("type", more)
		if err != nil {
			return nil, err
		}
		return noneOf(ops.SetPaused(c.ctx, s, typ, pause, reason, by))
	}
}
