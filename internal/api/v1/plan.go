package v1

import (
	"github.com/leasehold/leasehold/internal/ops"
)

// getPlan compares the configuration of this agent with what present agents declare. It takes no configuration: to read one is to evaluate its
// env and file calls, which would hand the client what this agent may read; and it reads no files, so that nobody can have it do that.
func (a *API) getPlan(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	blocks, claims := a.Configuration()
	return noneOf(ops.Plan(c.ctx, s, blocks, claims))
}
