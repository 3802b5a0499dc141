package poll

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

const (
	unblockMost  = 1000        // rows, notes and ids of one step
	unblockEvery = time.Second // how often a session looks for what others have left
	// unblockFirst and unblockLast bound the wait before a step is repeated that found others at work on the same rows.
	unblockFirst = 2 * time.Millisecond
	unblockLast  = 50 * time.Millisecond
)

// unblocker frees rows that wait for others: when rows of this session have ended, and now and then what others have left. It does so in
// short steps, and a repeat does nothing, so nothing has to be known about a step that did not answer.
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
	wait, missed := spread(unblockEvery), unblockFirst
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-b.work:
			timer.Stop()
		case <-timer.C:
		}
		if b.e.declarations().Workers == 0 {
			wait = spread(unblockEvery)
			continue
		}
		got, err := b.unblock(ctx)
		switch {
		case err != nil:
			wait = failed.next()
			continue
		case got.Missed:
			wait, missed = spread(missed), min(2*missed, unblockLast)
		default:
			wait, missed = spread(unblockEvery), unblockFirst
		}
		failed.reset()
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
		b.looked.Store(true)
		b.inUse.Store(got.Waiting)
		if got.Freed > 0 {
			b.e.wake.call()
		}
		if got.Worked == 0 {
			return got, nil
		}
	}
}
