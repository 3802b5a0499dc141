package poll

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// active notes what the session takes, so that AtRest sees whether anything has begun while it asked the store.
type active struct {
	taken   atomic.Int64 // rows, of claims and sweeps
	asked   atomic.Bool  // a claim was sent, and its rows are not known yet
	reaping atomic.Int32 // sweeps that look for expired rows, or have some that are not queued to be settled yet
}

// AtRest returns what keeps the session from being at rest; "": it runs nothing, and no row is due within that time that it could
// claim. What follows from attempts that have ended is carried out first: waiting rows are freed, locks and turns passed on. others
// does so for all that is not the engine's; it returns "" or what is still to come. Rows count that a limit, a rate or a
// breaker delays. Rows of paused types do not, nor rows that wait for a lock, a turn or another row, nor what other sessions hold, unless
// their leases have expired. It makes several calls to the store, each with a bound.
func (e *Engine) AtRest(ctx context.Context, within time.Duration, others func(context.Context) (string, error)) (left string, err error) {
	taken := e.active.taken.Load()
	if left := e.busyWith(); left != "" {
		return left, nil
	}
	for _, ask := range []func(context.Context) (string, error){
		e.passOn(within), others, e.expired, e.dueWithin(within),
	} {
		if left, err := ask(ctx); left != "" || err != nil {
			return left, err
		}
	}
	if left := e.busyWith(); left != "" {
		return left, nil
	}
	if e.active.taken.Load() != taken {
		return "tasks have run", nil
	}
	return "", nil
}

// busyWith returns what the session itself is at, as far as the agent knows; "": nothing.
func (e *Engine) busyWith() string {
	switch n := e.keeper.Held(); {
	case !e.Fit():
		return "the agent's session is not open"
	case n == 1:
		return "1 task runs"
	case n > 1:
		return fmt.Sprintf("%d tasks run", n)
	case e.active.asked.Load():
		return "a claim is on its way"
	case e.settle.count() > 0 || e.active.reaping.Load() > 0:
		return "outcomes are being settled"
	}
	return ""
}

// passOn frees what waits for rows that have ended, and passes locks and turns on. What comes of that is due.
func (e *Engine) passOn(within time.Duration) func(context.Context) (string, error) {
	const others = "rows that waited for an end are being freed"
	return func(ctx context.Context) (string, error) {
		if _, _, err := e.spillOnce(ctx); err != nil {
			return "", err
		}
		freed, err := e.after.unblock(ctx)
		if err != nil || freed.Missed {
			return others, err
		}
		got, err := e.locks.promote(ctx)
		switch {
		case err != nil || got.Missed:
			return others, err
		case got.Noted > 0: // others may have passed on a part of it
			return "locks are being passed on", nil
		case got.Next > 0 && got.Next <= within:
			return "a lock is passed on soon", nil
		}
		return "", nil
	}
}

// expired returns that rows are to be reaped, if there are any. Until then they look as if they were running.
func (e *Engine) expired(ctx context.Context) (left string, err error) {
	err = e.call(ctx, "holders", func(ctx context.Context) error {
		holders, err := e.o.Store.Holders(ctx, e.keeper.Session())
		if holders.Expired {
			left = "tasks whose agent is gone are to be reaped"
		}
		return err
	})
	return left, err
}

// dueWithin returns that a row is due, or will be, if there is one.
func (e *Engine) dueWithin(within time.Duration) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		wants := e.slots.all(func(l *lane) bool { return !e.paused.has(l.typ) })
		if len(wants) == 0 {
			return "", nil
		}
		var in time.Duration
		var ok bool
		err := e.call(ctx, "next_due", func(ctx context.Context) (err error) {
			in, ok, err = e.o.Store.NextDue(ctx, store.Claim{Session: e.keeper.Session(), Region: e.declarations().Region, Wants: wants})
			return err
		})
		switch {
		case err != nil || !ok || in > within:
			return "", err
		case in > 0:
			return "a task is due in " + in.Round(time.Millisecond).String(), nil
		}
		e.wake.call() // its notification may be yet to come
		return "a task is due", nil
	}
}

// all returns a want of one row for each source of the lanes that count.
func (s *slots) all(counts func(*lane) bool) (wants []store.Want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if !counts(l) {
			continue
		}
		for _, src := range l.sources {
			wants = append(wants, l.want(src, 1))
		}
	}
	return wants
}
