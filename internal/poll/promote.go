package poll

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

const (
	promoteMost  = 1000        // notes of one promotion
	promoteEvery = time.Second // how often a session looks for notes that another one, or an application, has left
	// promoteFirst and promoteLast bound the wait before a promotion is repeated that found others at work on the same locks.
	promoteFirst = 2 * time.Millisecond
	promoteLast  = 50 * time.Millisecond
)

// promoter passes on the locks that rows have left, and the turns of sequences: those of this session's rows at once, and now and then
// what others have left behind. A repeat does nothing, so nothing has to be known about a promotion that did not answer.
type promoter struct {
	e    *Engine
	left chan struct{} // has an element when a row of this session has left its lock, or may have ended its turn
}

func newPromoter(e *Engine) *promoter { return &promoter{e: e, left: make(chan struct{}, 1)} }

// call has the promoter look. It never blocks.
func (p *promoter) call() {
	select {
	case p.left <- struct{}{}:
	default:
	}
}

// claimIn has the loop claim again: rows were left whose locks another agent is passing on.
func (p *promoter) claimIn() { p.e.wake.by(p.e.o.Clock.Now() + promoteFirst) }

// run promotes until ctx ends. An observer claims nothing, and promotes nothing.
func (p *promoter) run(ctx context.Context) {
	var failed backoff
	wait, missed := spread(promoteEvery), promoteFirst
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-p.left:
			timer.Stop()
		case <-timer.C:
		}
		if p.e.declarations().Workers == 0 {
			wait = spread(promoteEvery)
			continue
		}
		got, err := p.promote(ctx)
		switch {
		case err != nil:
			wait = failed.next()
			continue
		case got.Missed:
			wait, missed = spread(missed), min(2*missed, promoteLast)
		default:
			wait, missed = spread(promoteEvery), promoteFirst
			if got.Next > 0 {
				wait = min(wait, got.Next)
			}
		}
		failed.reset()
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
