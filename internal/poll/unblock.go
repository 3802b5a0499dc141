package poll

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

const (
	unblockMost = 1000 // rows, notes and ids of one step
	// unblockFirst and unblockLast bound the wait before a step is repeated that found others at work on the same rows.
	unblockFirst = 2 * time.Millisecond
	unblockLast  = 50 * time.Millisecond
)

// unblocker frees rows that wait for others: when rows of this session have ended, and what the finder has found that others have left. It does
// so in short steps, and a repeat does nothing, so nothing has to be known about a step that did not answer.
type unblocker struct {
	e      *Engine
	work   chan struct{} // has an element when there may be something to do
	inUse  atomic.Bool   // rows waited for others when the store was last asked
	looked atomic.Bool   // it was asked
}

func newUnblocker(e *Engine) *unblocker { return &unblocker{e: e, work: make(chan struct{}, 1)} }

// call has the unblocker look. It never blocks.
func (b *unblocker) call() {
	select {
	case b.work <- struct{}{}:
	default:
	}
}

// ended has the unblocker look because rows have ended, if any row may wait for that.
func (b *unblocker) ended() {
	if b.inUse.Load() || !b.looked.Load() {
		b.call()
	}
}

// run unblocks until ctx ends. An observer claims nothing, and unblocks nothing.
func (b *unblocker) run(ctx context.Context) {
	var failed backoff
	var again <-chan time.Time // nil: when it is called
	missed := unblockFirst
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.work:
		case <-again:
		}
		again = nil
		if b.e.declarations().Workers == 0 {
			continue
		}
		got, err := b.unblock(ctx)
		if err != nil {
			again = time.After(failed.next())
			continue
		}
		failed.reset()
		if !got.Missed {
			missed = unblockFirst
			continue
		}
		again, missed = time.After(spread(missed)), min(2*missed, unblockLast)
	}
}

// found has the unblocker look where there is something to do, or it does not know that rows wait, or wait no more.
func (b *unblocker) found(left *store.Left) {
	if left.Ends || !b.looked.Load() || left.Waiting != b.inUse.Load() {
		b.call()
	}
}

// unblock makes steps until there is nothing left to do, and wakes the loop for the rows that may be claimed.
func (b *unblocker) unblock(ctx context.Context) (got store.Unblocked, err error) {
	for {
		err = b.e.call(ctx, "unblock", func(ctx context.Context) (err error) {
			got, err = b.e.o.Store.Unblock(ctx, unblockMost)
			return err
		})
		if err != nil {
			return got, err
		}
		b.inUse.Store(got.Waiting)
		b.looked.Store(true)
		if got.Freed > 0 {
			b.e.wake.call()
		}
		if got.Worked == 0 {
			return got, nil
		}
	}
}
