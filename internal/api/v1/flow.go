package v1

import "github.com/leasehold/leasehold/internal/ops"

// getFlow answers what limits, rates and locks let start, and who waits for them.
func (a *API) getFlow(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	return noneOf(ops.ReadFlow(c.ctx, s))
}
