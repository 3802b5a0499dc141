package poll

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Joined reports whether the session is open: the store was reached and is the binary's.
func (e *Engine) Joined() bool { return e.joined.Load() }

// Draining reports whether Drain has been called.
func (e *Engine) Draining() bool {
	select {
	case <-e.draining:
		return true
	default:
		return false
	}
}

// Held is how many rows the session holds, as far as it knows: queued, running, or not settled yet.
func (e *Engine) Held() int { return e.keeper.Held() }

// Fit reports whether the session is present in the store and may claim.
func (e *Engine) Fit() bool { return e.Joined() && e.keeper.Fit() }

// Session returns the session's number, and whether it is open.
func (e *Engine) Session() (s task.Session, joined bool) { return e.keeper.Session(), e.Joined() }

// MayFire reports whether the session may act on what the store's clock shows, which is now: it may claim, knows that clock to
// within store.JumpTolerance, and has seen no jump of it within one TTL. A new session may not for its first lease.SettleIn.
func (e *Engine) MayFire(now time.Time) bool {
	return e.Steady() && now.Sub(e.keeper.View().Now).Abs() <= store.JumpTolerance
}

// Steady is MayFire without what the store's clock shows: who is present may be believed.
func (e *Engine) Steady() bool { return e.Fit() && !e.keeper.View().Now.IsZero() }

// StoreNow returns the time by the store's clock, as well as the session knows it; zero before it has read that clock.
func (e *Engine) StoreNow() time.Time { return e.keeper.StoreNow() }

// LongestStop returns how long the most patient attempt, of those that run and those of declared types, may take to stop.
func (e *Engine) LongestStop() time.Duration { return e.keeper.LongestStop() }

// Health is nil while the loop turns, and while rows that are due can be claimed; else it says what is wrong. Both get
// ten times Declarations.Poll. While the loop waits for the store, which bounds that wait, it is the store that is unwell:
// readiness reports that.
func (e *Engine) Health() error {
	stuck, starved := e.idleTooLong()
	switch {
	case stuck > 0:
		return fmt.Errorf("the loop has not turned for %s", stuck.Round(time.Millisecond))
	case starved > 0:
		return fmt.Errorf("tasks are due and slots are free, but none could be claimed for %s", starved.Round(time.Millisecond))
	}
	return nil
}

// idleTooLong returns for how long the loop has not turned, and for how long rows were due that could not be claimed; 0 where that is no
// longer than it may be. It takes no lock: heartbeats ask it while the loop may hold any.
func (e *Engine) idleTooLong() (stuck, starved time.Duration) {
	limit := 10 * e.declarations().Poll
	now := e.o.Clock.Now()
	if e.asking.Load() {
		limit += callTimeout
	}
	if stood := now - time.Duration(e.turned.Load()); e.Joined() && !e.Draining() && stood > limit {
		stuck = stood
	}
	if since := e.starving.Load(); since != 0 && now-time.Duration(since) > limit {
		starved = now - time.Duration(since)
	}
	return stuck, starved
}

// Pulse reports whether the loop is alive, for one caller who asks at intervals: it has turned since the last call, or
// waits for the store, each wait for which is bounded, or has nothing to turn for, as before the session is open and once
// draining has begun. It wakes the loop, so that one that rests has turned by the next call.
func (e *Engine) Pulse() bool {
	turned := e.turned.Load()
	alive := turned != e.pulse.Swap(turned) || e.asking.Load() || !e.Joined() || e.Draining()
	e.wake.turn()
	return alive
}
