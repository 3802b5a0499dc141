package poll

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// ordered takes in what an operator wants of the session: with each heartbeat that says something else than the one before.
func (e *Engine) ordered(o store.AgentOrder, by string) {
	switch o {
	case store.Drain:
		e.log.Info("an operator has the agent drain", "by", by)
		if e.o.Ordered != nil {
			e.o.Ordered(by)
		}
	case store.Cordon:
		e.log.Info("cordoned: the agent claims nothing until it is uncordoned; what runs goes on", "by", by)
		e.cordoned.Store(true)
	default:
		e.log.Info("uncordoned: the agent claims tasks again")
		e.cordoned.Store(false)
		e.wake.call()
	}
	e.wake.turn()
}

// rests releases what is queued, and waits until something may be different: the loop of a cordoned agent turns, and claims nothing.
func (e *Engine) rests(stopped, calls context.Context, i *idleness) {
	back, _ := e.slots.takeBack(e.o.Clock.Now(), func(*lane, task.Phase) bool { return true })
	for _, a := range back {
		e.releaseUnstarted(a, "the agent is cordoned")
	}
	e.starving.Store(0)
	if i.state != busy {
		i.say(calls, false)
	}
	timer := time.NewTimer(e.declarations().Poll)
	defer timer.Stop()
	select {
	case <-stopped.Done():
	case <-e.wake.sooner:
	case <-e.wake.called:
		e.slots.forgetExhausted() // for when it is uncordoned
	case <-timer.C:
	}
}
