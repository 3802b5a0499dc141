package sqlite

import (
	"context"
	"slices"
	"sync"
)

// urgency says which writes of this process go first.
type urgency int

const (
	// ordinary writes may wait: what they are about stays as it is.
	ordinary urgency = iota
	// pressing writes keep what this process has: its session and its leases run out while they wait.
	pressing
)

// queue hands out the turn to write: to pressing calls first, but not twice in a row while an ordinary one waits, and otherwise in the order
// in which they came.
type queue struct {
	mu      sync.Mutex
	taken   bool
	last    urgency                       // of the call that has, or had, the turn
	waiting [pressing + 1][]chan struct{} // closed when it is their turn
}

// ticket is what one call in the queue holds.
type ticket struct {
	queue   *queue
	urgency urgency
	turn    bool // it has the turn
}

// enter waits for the turn. Its error is that of ctx.
func (q *queue) enter(ctx context.Context, u urgency) (*ticket, error) {
	p := &ticket{queue: q, urgency: u}
	q.mu.Lock()
	mine := make(chan struct{})
	q.waiting[u] = append(q.waiting[u], mine)
	if !q.taken {
		q.next()
	}
	q.mu.Unlock()
	if err := p.wait(ctx, mine); err != nil {
		return nil, err
	}
	return p, nil
}

// letPass has a pressing call that waits go first. With an error, that of ctx, the turn has passed on.
func (p *ticket) letPass(ctx context.Context) error {
	q := p.queue
	q.mu.Lock()
	if p.urgency == pressing || len(q.waiting[pressing]) == 0 {
		q.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	q.waiting[p.urgency] = slices.Insert(q.waiting[p.urgency], 0, mine)
	p.turn = false
	q.next()
	q.mu.Unlock()
	return p.wait(ctx, mine)
}

// leave hands the turn on, where the call has it.
func (p *ticket) leave() {
	if !p.turn {
		return
	}
	p.turn = false
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	p.queue.next()
}

func (p *ticket) wait(ctx context.Context, mine chan struct{}) error {
	select {
	case <-mine:
		p.turn = true
		return nil
	case <-ctx.Done():
	}
	q := p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting[p.urgency], mine); i >= 0 {
		q.waiting[p.urgency] = slices.Delete(q.waiting[p.urgency], i, i+1)
	} else {
		q.next() // the turn came just now
	}
	return ctx.Err()
}

// next gives the turn to the next call. It needs mu.
func (q *queue) next() {
	u := pressing
	if len(q.waiting[pressing]) == 0 || q.last == pressing && len(q.waiting[ordinary]) > 0 {
		u = ordinary
	}
	q.taken = len(q.waiting[u]) > 0
	if q.taken {
		q.last = u
		close(q.waiting[u][0])
		q.waiting[u] = q.waiting[u][1:]
	}
}
