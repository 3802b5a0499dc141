package web

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
)

// doctorEvery spares the store: who asks more often gets the last answer.
const doctorEvery = 10 * time.Second

// checkups keep the last answer of doctor.
type checkups struct {
	mu   sync.Mutex
	at   time.Time
	last ops.Checkup
}

// checkup examines the store, unless that was just done.
func (d *Dashboard) checkup(r *request) ops.Checkup {
	d.checked.mu.Lock()
	defer d.checked.mu.Unlock()
	if !d.checked.at.IsZero() && time.Since(d.checked.at) < doctorEvery {
		return d.checked.last
	}
	found := ops.Doctor(r.ctx, d.Store, ops.DoctorOptions{}, time.Now)
	if r.ctx.Err() == nil { // what was cut off says nothing of the store
		d.checked.at, d.checked.last = time.Now(), found
	}
	return found
}

// doctor shows what is not as it should be.
func (d *Dashboard) doctor(r *request) (*view, error) {
	data := struct {
		Now time.Time
		ops.Checkup
	}{r.now, d.checkup(r)}
	return &view{Title: "Doctor", Place: "doctor", Name: "doctor", Data: data, Live: events}, nil
}
