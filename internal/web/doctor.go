package web

import (
	"time"

	"github.com/leasehold/leasehold/internal/ops"
)

// doctor shows what is not as it should be.
func (d *Dashboard) doctor(r *request) (*view, error) {
	found, err := d.Checkups.Look(r.ctx)
	if err != nil {
		return nil, err
	}
	data := struct {
		Now time.Time
		ops.Checkup
	}{r.now, found}
	return &view{Title: "Doctor", Place: "doctor", Name: "doctor", Data: data, Live: events}, nil
}
