package lease

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// How often the store is asked which attempts are to stop, however often the agent is notified: each look is followed by a
// rest of lookEvery, or of lookShare times its duration if that is longer, so that a flood of cancellations costs each agent
// a fifth of one connection's time at most. A look that failed is repeated after lookAgain.
const (
	lookEvery = 20 * time.Millisecond
	lookShare = 4
	lookAgain = 250 * time.Millisecond
	lookLimit = 2 * time.Second // of one look
)

// Look has the store asked at once which rows that the session holds, or is about to hold, are to stop: a cancellation may
// have been committed. It does not block.
func (k *Keeper) Look() {
	select {
	case k.looks <- struct{}{}:
	default:
	}
}

// lookLoop looks whenever Look was called, until ctx ends.
func (k *Keeper) lookLoop(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-k.looks:
		}
		began := k.clock.Now()
		wait := lookEvery
		if err := k.seeCancels(ctx); err != nil && ctx.Err() == nil {
			k.metrics.StoreErrors.WithLabelValues("cancels").Inc()
			k.log.Debug("cannot ask the store what is to stop; asked again", "session", k.Session(), "err", err)
			wait = lookAgain
			k.Look()
		}
		rest.Reset(max(wait, lookShare*min(k.clock.Now()-began, lookLimit))) // longer only where the agent stood still
	}
}

// seeCancels asks the store once which rows are to stop, and stops them: running attempts if the row itself is marked, and
// every row that has not started. A row of a claim whose reply has not been read yet is stopped when Open opens its lease.
func (k *Keeper) seeCancels(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	list, err := k.store.Cancels(call, k.Session())
	if err != nil {
		return err
	}
	var stopped []store.Cancel
	var leases []*Lease
	k.mu.Lock()
	k.early = make(map[task.ID]store.Cancel)
	for _, c := range list {
		switch l := k.open[c.ID]; {
		case l != nil && l.task.Fence == c.Fence:
			stopped, leases = append(stopped, c), append(leases, l)
		case c.Claim > k.through: // the claim has committed, and Open comes later
			k.early[c.ID] = c
		}
	}
	k.mu.Unlock()
	for i, l := range leases {
		l.cancelled(stopped[i])
	}
	if len(leases) > 0 {
		k.halt()
	}
	return nil
}

// halt has the queued rows searched for stopped leases.
func (k *Keeper) halt() {
	if k.halted != nil {
		k.halted()
	}
}
