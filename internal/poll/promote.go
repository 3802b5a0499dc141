package poll

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

const (
	promoteMost = 1000 // notes of one promotion
	passWithin  = 20 * time.Millisecond
	passLast    = 200 * time.Millisecond // while a claim is at work, which another follows at once
	// promoteFirst and promoteLast bound the wait before a promotion is repeated that found others at work on the same locks.
	promoteFirst = 2 * time.Millisecond
	promoteLast  = 50 * time.Millisecond

	never = 100 * 365 * 24 * time.Hour // the wait where only a call ends it
)

// promoter passes on the locks that rows have left, and the turns of sequences: those of this session's rows at once, and what the finder has
// found that others have left behind. A repeat does nothing, so nothing has to be known about a promotion that did not answer.
//
// What this session's rows have left is passed on by the loop's next claim, which takes rows that are next at once. Where none is made within
// passWithin, or within passLast while the loop waits for the one before, or where it has not passed on all, the promoter does it.
type promoter struct {
	e     *Engine
	left  chan struct{} // has an element when a row of this session has left its lock, or may have ended its turn
	now   chan struct{} // has an element when no claim is to be waited for
	noted atomic.Bool   // there is something that no claim has passed on yet
	look  atomic.Int64  // local time of the next look without a call
}

func newPromoter(e *Engine) *promoter {
	return &promoter{e: e, left: make(chan struct{}, 1), now: make(chan struct{}, 1)}
}

// call has what rows of this session have left passed on. It never blocks.
func (p *promoter) call() {
	p.noted.Store(true)
	select {
	case p.left <- struct{}{}:
	default:
	}
	p.e.wake.turn()
}

// hurry has the promoter look at once. It never blocks.
func (p *promoter) hurry() {
	select {
	case p.now <- struct{}{}:
	default:
	}
}

// leave leaves to the next claim, or to the promoter, what would have been passed on by one that is not made.
func (p *promoter) leave(pass *store.Pass) {
	if pass != nil {
		p.noted.Store(true)
	}
}

// passed notes what a claim has passed on. Two answers about one note differ by how long they took.
func (p *promoter) passed(got store.Promoted, err error) {
	if err != nil || got.Missed || got.Noted >= promoteMost || got.Next > 0 && int64(p.e.o.Clock.Now()+got.Next+passWithin) < p.look.Load() {
		p.hurry()
	}
}

// claimIn has the loop claim again: rows were left whose locks another agent is passing on.
func (p *promoter) claimIn() { p.e.wake.by(p.e.o.Clock.Now() + promoteFirst) }

// run promotes until ctx ends. An observer claims nothing, and promotes nothing.
func (p *promoter) run(ctx context.Context) {
	var failed backoff
	wait, missed := never, promoteFirst
	for {
		p.look.Store(int64(p.e.o.Clock.Now() + wait))
		if !p.rest(ctx, wait) {
			return
		}
		if p.e.declarations().Workers == 0 {
			wait = never
			continue
		}
		got, err := p.promote(ctx)
		switch {
		case err != nil:
			p.noted.Store(true) // a claim may come first
			p.e.wake.turn()
			wait = failed.next()
			continue
		case got.Missed:
			wait, missed = spread(missed), min(2*missed, promoteLast)
		default:
			wait, missed = never, promoteFirst
			if got.Next > 0 {
				wait = min(wait, got.Next)
			}
		}
		failed.reset()
	}
}

// rest waits until it is time to promote. It returns false if ctx ended first.
func (p *promoter) rest(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-p.now:
			return true
		case <-p.left:
		}
		p.awaitClaim(ctx)
		if p.noted.Swap(false) {
			return ctx.Err() == nil
		}
	}
}

// awaitClaim waits for the loop's next claim: for passWithin while none is at work, and for passLast at most.
func (p *promoter) awaitClaim(ctx context.Context) {
	last := time.NewTimer(passLast)
	defer last.Stop()
	each := time.NewTicker(passWithin)
	defer each.Stop()
	for p.noted.Load() {
		select {
		case <-each.C:
			if p.e.claiming.Load() {
				continue
			}
		case <-ctx.Done():
		case <-last.C:
		case <-p.now:
			p.noted.Store(true)
		case <-p.e.ending: // nothing more is claimed
		}
		return
	}
}

// promote passes on all locks and turns that it can, and wakes the loop for the rows that have them to wait for no more.
func (p *promoter) promote(ctx context.Context) (got store.Promoted, err error) {
	for {
		err = p.e.call(ctx, "promote", func(ctx context.Context) (err error) {
			got, err = p.e.o.Store.Promote(ctx, promoteMost)
			return err
		})
		if err != nil {
			return got, err
		}
		if got.Rows > 0 {
			p.e.wake.call()
		}
		if got.Noted < promoteMost || got.Missed {
			return got, nil
		}
	}
}
