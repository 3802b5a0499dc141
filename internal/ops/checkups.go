package ops

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// How often, and for how long, Checkups examine a store.
const (
	checkupEvery  = 10 * time.Second
	checkupWithin = 10 * time.Second
)

// Checkups are what Doctor finds, for all who ask within an agent: the store is examined once for those who ask at once, and not again for 10 s.
type Checkups struct {
	store Diagnoser

	turn *semaphore.Weighted // of the one who examines: others wait for the same answer. What follows is theirs alone
	at   time.Time
	last Checkup
}

// NewCheckups returns those of a store.
func NewCheckups(s Diagnoser) *Checkups { return &Checkups{store: s, turn: semaphore.NewWeighted(1)} }

// Look returns what was found last, and examines the store if that is not new. A store that does not answer within 10 s is a finding. The error is
// ctx's, of one who waits for the answer.
func (c *Checkups) Look(ctx context.Context) (Checkup, error) {
	if err := c.turn.Acquire(ctx, 1); err != nil {
		return Checkup{}, err
	}
	defer c.turn.Release(1)
	if !c.at.IsZero() && time.Since(c.at) < checkupEvery {
		return c.last, nil
	}
	// Others wait for the answer: that this one goes away is no reason to stop, and says nothing of the store.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkupWithin)
	defer cancel()
	c.last = Doctor(call, c.store, DoctorOptions{}, time.Now)
	c.at = time.Now()
	return c.last, nil
}
