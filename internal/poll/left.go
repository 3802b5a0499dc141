package poll

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// leftEvery is how often a session looks for what others have left, at least, where no notification comes: with the time that the look takes it
// is less than the second after which, as operators are promised, no task of a type that they have paused starts.
const leftEvery = 700 * time.Millisecond

// leftWait is up to a fifth less, so that sessions that were notified together do not go on to look together.
func leftWait() time.Duration { return leftEvery - time.Duration(float64(leftEvery)*jitter()/5) }

// finder looks for what other sessions, applications and operators have left, and tells those whose work it is. It is one statement for all of
// them, since an idle session makes few others.
type finder struct {
	e   *Engine
	now chan struct{} // has an element when a type may have been paused or resumed
}

func newFinder(e *Engine) *finder { return &finder{e: e, now: make(chan struct{}, 1)} }

// call has the finder look at once. It never blocks.
func (f *finder) call() {
	select {
	case f.now <- struct{}{}:
	default:
	}
}

// run looks until ctx ends.
func (f *finder) run(ctx context.Context) {
	var failed backoff
	for {
		timer := time.NewTimer(leftWait())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-f.now:
			timer.Stop()
		case <-timer.C:
		}
		for f.look(ctx) != nil {
			if !pause(ctx, nil, failed.next()) {
				return
			}
		}
		failed.reset()
	}
}

// look looks once. In an observer those that it calls do nothing: it needs to know of pauses only.
func (f *finder) look(ctx context.Context) error {
	var left store.Left
	err := f.e.call(ctx, "look", func(ctx context.Context) (err error) {
		left, err = f.e.o.Store.Left(ctx)
		return err
	})
	if err != nil {
		return err
	}
	f.e.paused.learn(left.Paused)
	if left.Turns {
		f.e.locks.hurry()
	}
	f.e.after.found(&left)
	if left.Changes {
		f.e.o.Changes()
	}
	return nil
}
