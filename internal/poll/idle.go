package poll

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

const (
	// nextDueEvery is the least time between two calls that ask the store when the next row is due.
	nextDueEvery = 50 * time.Millisecond
	// busyFor is how long there must have been no free slot, and no claim that came back short, before the session asks
	// producers to stop notifying it.
	busyFor = time.Second
	// If more than floodClaims small claims come within floodWithin, each of them answers a notification or two. The session
	// then declares itself busy and polls every floodPace, which costs producers and store a fraction. It is idle again once
	// floodOver polls in a row found nothing.
	floodClaims = 20
	floodWithin = 100 * time.Millisecond
	floodPace   = 5 * time.Millisecond
	floodOver   = 5
	// withheldPace is the least time between two notifications that are followed while rows of a type are due that has used up its
	// share of the slots: most notifications are for more of these.
	withheldPace = 20 * time.Millisecond
	// shareEvery is how often its share is computed anew: it grows as the others' loads fall.
	shareEvery = time.Second
	// sayEvery is how often the session repeats that it is idle, in case the store has lost that: the session's row may have
	// been removed and written again.
	sayEvery = time.Minute
)

// standing is what the store knows of the session, as far as the agent knows.
type standing int

const (
	busy    standing = iota // producers do not notify it
	waiting                 // they do
	unknown                 // the store did not answer the last call
)

// idleness is what the loop does when there is nothing to claim: it declares the session idle, claims once more, and then
// waits for a notification, for the next due time, or for the poll, whichever comes first. Each of the three works
// without the others. The claim after the declaration finds rows that were inserted just before producers saw it.
type idleness struct {
	e *Engine

	state    standing
	stateAt  time.Duration // local time of that
	looked   bool          // the next due time is known since the last claim
	lookedAt time.Duration // local time of the last query of the next due time
	free     time.Duration // local time at which a slot was last free with nothing to claim
	misses   int           // how often in a row rows were due and a claim got none

	flooded    bool          // small claims follow each other closely
	claims     int           // small ones since counted
	counted    time.Duration // local time since which they are counted
	emptyLooks int           // looks in a row that found nothing, while flooded
}

// look handles what ends a rest, also while the loop does not rest: types that had nothing due at the last claim may have
// something now, however busy the others are.
func (i *idleness) look() {
	e := i.e
	select {
	case <-e.wake.called:
		e.slots.forgetExhausted()
	default:
	}
	now := e.o.Clock.Now()
	if _, ok := e.wake.due(now); !ok {
		e.slots.forgetExhausted()
		e.wake.by(now + spread(e.declarations().Poll))
	}
}

// claimed records a claim. One of what limits hold says nothing of what else is due.
func (i *idleness) claimed(calls context.Context, got reply) {
	i.looked = i.looked && got.held
	if got.rows > 0 {
		i.misses = 0
		i.e.starving.Store(0)
	}
	now := i.e.o.Clock.Now()
	if !got.full && i.e.slots.idle() {
		i.free = now
	}
	if !got.held {
		i.watchFlood(got.free, now)
	}
	i.sayBusy(calls, now)
}

// watchFlood detects rows that arrive one by one in quick succession.
func (i *idleness) watchFlood(got int, now time.Duration) {
	switch {
	case i.flooded && got > 0:
		i.emptyLooks = 0
	case i.flooded:
		if i.emptyLooks++; i.emptyLooks == floodOver {
			i.flooded, i.claims, i.counted = false, 0, now
		}
	case got > 0:
		i.claims++
		if now-i.counted > floodWithin {
			i.claims, i.counted = 1, now
		}
		i.flooded, i.emptyLooks = i.claims > floodClaims, 0
	}
}

// rest waits until there may be something to claim.
func (i *idleness) rest(stopped, calls context.Context) {
	e := i.e
	now := e.o.Clock.Now()
	free := e.slots.idle() // read once: attempts end meanwhile
	if i.flooded && free {
		pause(stopped, nil, floodPace)
		e.slots.forgetExhausted()
		return
	}
	if free && e.keeper.Fit() && e.settle.room() > 0 {
		i.free = now
		if (i.state != waiting || now-i.stateAt > sayEvery) && i.say(calls, true) {
			e.slots.forgetExhausted() // say it, look once more, then wait
			return
		}
		i.ask(calls, now)
	} else {
		i.sayBusy(calls, now)
	}
	in, ok := e.wake.due(e.o.Clock.Now())
	if !ok {
		return // look continues from here
	}
	if held, ok := e.slots.heldFor(e.o.Clock.Now()); ok {
		in = min(in, held)
	}
	withheld := e.slots.withheld()
	if withheld {
		in = min(in, shareEvery)
	}
	timer := time.NewTimer(in)
	defer timer.Stop()
	select {
	case <-stopped.Done():
	case <-e.slots.free:
	case <-e.wake.sooner:
	case <-e.wake.called:
		if withheld {
			pause(stopped, nil, withheldPace)
		}
		e.slots.forgetExhausted()
	case <-timer.C:
	}
}

// ask sets the next look to when the next row is due.
func (i *idleness) ask(calls context.Context, now time.Duration) {
	e := i.e
	if i.looked {
		return
	}
	if ago := now - i.lookedAt; i.lookedAt != 0 && ago < nextDueEvery {
		e.wake.by(now + nextDueEvery - ago)
		return
	}
	wants := e.slots.open(e.room)
	if len(wants) == 0 {
		return
	}
	i.looked, i.lookedAt = true, now
	var in time.Duration
	var ok bool
	err := e.ask(calls, "next_due", func(ctx context.Context) (err error) {
		in, ok, err = e.o.Store.NextDue(ctx, store.Claim{Session: e.keeper.Session(), Region: e.declarations().Region, Wants: wants})
		return err
	})
	switch {
	case err != nil: // polling goes on
	case !ok:
		i.misses = 0
		e.starving.Store(0)
	case in > 0:
		i.misses = 0
		e.starving.Store(0)
		if in < e.declarations().Poll {
			e.wake.by(e.o.Clock.Now() + in)
		}
	default: // due, and the claim before did not get it: a short race, or another transaction keeps the rows locked
		if i.misses > 0 {
			e.starving.CompareAndSwap(0, int64(now))
		}
		wait := min(time.Millisecond<<min(i.misses, 10), e.declarations().Poll)
		i.misses++
		e.wake.by(e.o.Clock.Now() + wait)
	}
}

// sayBusy ends the notifications of producers once there has been no free slot for busyFor, or rows flood in.
func (i *idleness) sayBusy(calls context.Context, now time.Duration) {
	if i.state != busy && (i.flooded || now-i.free > busyFor) {
		i.say(calls, false)
	}
}

// say sets in the store whether this session wants to be notified. It returns false if it is unknown whether the store did.
func (i *idleness) say(calls context.Context, idle bool) bool {
	err := i.e.ask(calls, "idle", func(ctx context.Context) error {
		return i.e.o.Store.Idle(ctx, i.e.keeper.Session(), idle)
	})
	if err != nil {
		i.state = unknown
		return false
	}
	i.state, i.stateAt = busy, i.e.o.Clock.Now()
	if idle {
		i.state = waiting
	}
	return true
}
