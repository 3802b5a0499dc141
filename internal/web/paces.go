package web

import (
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// paces measure how fast the batches advance that are looked at.
type paces struct {
	mu   sync.Mutex
	list map[task.BatchID]*pace
}

type pace struct {
	ops.Pace
	at time.Time // of the last look
}

// Bounds of what is measured.
const (
	mostPaces = 100
	paceKept  = time.Minute // after the last look
)

// of takes in a batch as it is now, and returns its tasks per second, and how long it will still take, as far as both are known.
func (p *paces) of(b *store.BatchInfo, now time.Time) (rate float64, known bool, left time.Duration, leftKnown bool) {
	if b.EndedAt != nil {
		return 0, false, 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, one := range p.list {
		if now.Sub(one.at) > paceKept {
			delete(p.list, id)
		}
	}
	one := p.list[b.ID]
	if one == nil {
		if p.list == nil {
			p.list = map[task.BatchID]*pace{}
		}
		if len(p.list) >= mostPaces {
			return 0, false, 0, false
		}
		one = &pace{}
		p.list[b.ID] = one
	}
	if !now.Before(one.at) {
		one.at = now
		one.Add(b, now)
	}
	rate, known = one.Rate()
	left, leftKnown = one.Left(b)
	return rate, known, left, leftKnown
}
