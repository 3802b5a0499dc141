package v1

import (
	"net/http"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
)

// healthEvery spares the store: a client that asks more often gets the last answer.
const healthEvery = 2 * time.Second

// health is the last answer.
type health struct {
	mu   sync.Mutex
	at   time.Time
	last ops.Health
}

// getHealth answers with 503 where something keeps tasks from being run on any agent, or this one from working.
func (a *API) getHealth(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	h, err := a.readHealth(c)
	if err != nil {
		return nil, err
	}
	if a.Healthy != nil {
		if err := a.Healthy(); err != nil {
			h.Problems = append([]string{}, h.Problems...) // the last answer keeps its own
			h.Fail("this agent: " + err.Error())
		}
	}
	if h.Status != ops.HealthOK {
		c.status = http.StatusServiceUnavailable
	}
	return h, nil
}

func (a *API) readHealth(c *call) (ops.Health, error) {
	a.health.mu.Lock()
	h, at := a.health.last, a.health.at
	a.health.mu.Unlock()
	if !at.IsZero() && time.Since(at) < healthEvery {
		return h, nil
	}
	s, err := c.work()
	if err != nil {
		return h, err
	}
	if h = ops.ReadHealth(c.ctx, s); c.r.Context().Err() != nil { // what was cut off says nothing of the store
		return h, errBusy
	}
	a.health.mu.Lock()
	defer a.health.mu.Unlock()
	a.health.last, a.health.at = h, time.Now()
	return h, nil
}
