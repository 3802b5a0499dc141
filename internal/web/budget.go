package web

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// There is no end of addresses: of filters, of tasks. So that each is read once for all who look bounds nothing, however many browsers follow one of
// their own. All pages but the main ones, of which there are few, get a part of the time of one connection to the store, and no more.
const (
	ownShare   = 4                     // they have one part in so many
	ownSaved   = 10 * time.Second      // of the store's time: what they may use at once after a while in which nobody looked
	ownLeast   = 10 * time.Millisecond // what a page uses, at least
	ownAtOnce  = 2                     // of mostAtOnce: main pages find places beside them
	ownWaiting = 64                    // pages that wait for time
)

// budget is the store's time for pages that have an address of their own.
type budget struct {
	line, turns *semaphore.Weighted

	mu   sync.Mutex
	left time.Duration // at a time; below 0 where a page took more than there was: then there is none until that is made up for
	at   time.Time
}

func newBudget() budget {
	return budget{
		line: semaphore.NewWeighted(ownWaiting), turns: semaphore.NewWeighted(ownAtOnce), left: ownSaved, at: time.Now(),
	}
}

// spentError says that the time is used up.
type spentError struct {
	after time.Duration // until there is some again
}

func (e *spentError) Error() string {
	return fmt.Sprintf("pages with a filter, and those of single tasks, have used their part of the store's time: try again in %d s", e.seconds())
}

// seconds is the time after which to try again, in whole seconds from 1 on.
func (e *spentError) seconds() int { return int(max(e.after+time.Second-1, time.Second) / time.Second) }

// enter waits until there is time for a page, where that is before ctx ends. leave takes what the page used.
func (b *budget) enter(ctx context.Context) (leave func(used time.Duration), err error) {
	if !b.line.TryAcquire(1) {
		return nil, &spentError{b.until(time.Now())}
	}
	defer b.line.Release(1)
	if b.turns.Acquire(ctx, 1) != nil {
		return nil, &spentError{b.until(time.Now())}
	}
	for {
		now := time.Now()
		after := b.until(now)
		if end, bounded := ctx.Deadline(); bounded && !end.After(now.Add(after)) || ctx.Err() != nil {
			b.turns.Release(1)
			return nil, &spentError{after}
		}
		if after == 0 {
			return b.leave, nil
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
		}
	}
}

// until is how long it takes until there is time for a page.
func (b *budget) until(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(b.left+now.Sub(b.at)/ownShare, ownSaved)
	b.at = now
	return max(-b.left*ownShare, 0)
}

// leave takes what a page used.
func (b *budget) leave(used time.Duration) {
	b.mu.Lock()
	b.left -= max(used, ownLeast)
	b.mu.Unlock()
	b.turns.Release(1)
}
