package poll

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// wake is what ends the loop's rest: a notification, the next due time, or the poll.
type wake struct {
	called chan struct{} // has an element when something may be new
	sooner chan struct{} // has an element when look moved forward

	mu   sync.Mutex
	look time.Duration // local time at which to look again; 0: not set
}

func newWake() *wake {
	return &wake{called: make(chan struct{}, 1), sooner: make(chan struct{}, 1)}
}

// call wakes the loop because there may be new rows to claim. It never blocks.
func (w *wake) call() {
	select {
	case w.called <- struct{}{}:
	default:
	}
}

// turn makes the loop turn once, without a call to the store. It never blocks.
func (w *wake) turn() {
	select {
	case w.sooner <- struct{}{}:
	default:
	}
}

// by asks for a look at the local time at, or earlier.
func (w *wake) by(at time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.look != 0 && w.look <= at {
		return
	}
	w.look = at
	w.turn()
}

// due returns the time until the next look; ok is false if it has come.
func (w *wake) due(now time.Duration) (in time.Duration, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.look == 0 || w.look <= now {
		w.look = 0
		return 0, false
	}
	return w.look - now, true
}

// listenTo returns the function that listens to the store's notifications until its context ends.
func (w *wake) listenTo(e *Engine) func(context.Context) {
	return func(ctx context.Context) {
		var b backoff
		onNews := func(n store.News) {
			if n&store.CancelNews != 0 {
				e.keeper.Look()
				e.o.Batch()
			}
			if n&store.Due != 0 {
				w.call()
			}
			if n&store.AfterNews != 0 {
				e.after.call()
			}
			if n&store.PauseNews != 0 {
				e.left.call()
			}
			if n&store.PlaceNews != 0 {
				e.slots.placeLeft()
			}
		}
		for ctx.Err() == nil {
			if err := e.o.Store.Listen(ctx, onNews); err != nil && ctx.Err() == nil {
				e.o.Metrics.StoreErrors.WithLabelValues("listen").Inc()
				e.o.Metrics.Outage.Failed(e.log, "listen", err) // polling goes on
				pause(ctx, nil, b.next())
			}
		}
	}
}

// backoff grows from 50 ms to 2 s, jittered: below lease.SettleIn, so that after an outage outcomes are settled and
// claims are read back before another agent reaps their rows.
type backoff struct{ tries int }

const backoffMin, backoffMax = 50 * time.Millisecond, 2 * time.Second

func (b *backoff) next() time.Duration {
	d := min(backoffMin<<min(b.tries, 10), backoffMax)
	b.tries++
	return spread(d)
}

func (b *backoff) reset() { b.tries = 0 }

// pause waits for d. It returns false if ctx or stop ended first. stop may be nil.
func pause(ctx context.Context, stop <-chan struct{}, d time.Duration) bool {
	if d <= 0 {
		// No timer: one that is due at once is fired by who waits for it, and in a bubble of synctest the race detector
		// takes that for the goroutine that fires all others, and crashes.
		select {
		case <-stop:
			return false
		default:
			return ctx.Err() == nil
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-stop:
		return false
	}
}

// jitter returns a random number in [0, 1).
func jitter() float64 { return rand.Float64() }

// spread returns d with up to a fifth of jitter either way.
func spread(d time.Duration) time.Duration { return d*4/5 + time.Duration(float64(d)*0.4*jitter()) }
