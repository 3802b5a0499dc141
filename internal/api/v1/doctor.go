package v1

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
)

// doctorEvery spares the store: a client that asks more often gets the last answer.
const doctorEvery = 10 * time.Second

// checkup is the last answer.
type checkup struct {
	busy sync.Mutex // held while the store is examined
	at   time.Time
	last ops.Checkup
}

// getDoctor answers with what is found, and with 200 whatever that is: the answer says whether the store is healthy.
func (a *API) getDoctor(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := c.work()
	if err != nil {
		return nil, err
	}
	if !a.checkup.busy.TryLock() {
		return nil, errBusy
	}
	defer a.checkup.busy.Unlock()
	if !a.checkup.at.IsZero() && time.Since(a.checkup.at) < doctorEvery {
		return a.checkup.last, nil
	}
	found := ops.Doctor(c.ctx, s, ops.DoctorOptions{}, time.Now)
	if c.r.Context().Err() != nil { // what was cut off says nothing of the store
		return nil, errBusy
	}
	a.checkup.last, a.checkup.at = found, time.Now()
	return found, nil
}
