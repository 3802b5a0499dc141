package v1

import (
	"github.com/leasehold/leasehold/internal/api"
	"github.com/leasehold/leasehold/internal/ops"
)

// getHistory answers with what all agents have done in the last hour, or in the last two days.
func (a *API) getHistory(c *call) (any, error) {
	text, typ := c.query.text("span"), c.query.text("type")
	span := ops.LastHour
	if text != "" {
		var err error
		if span, err = ops.ParseActivitySpan(text); err != nil {
			c.query.wrong("span %s: use %s or %s", api.Quote(text), ops.LastHour, ops.LastTwoDays)
		}
	}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	reads := false
	found, err := a.Histories.Look(c.ctx, span, typ, func() (*ops.Activity, error) {
		reads = true
		s, err := c.work()
		if err != nil {
			return nil, err
		}
		return ops.ReadActivity(c.ctx, s, span, typ)
	})
	if err != nil && !reads { // it has waited for another that reads the same
		return nil, errBusy
	}
	return found, err
}
