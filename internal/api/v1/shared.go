package v1

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// Bounds of a look.
const (
	lookWithin = 10 * time.Second // one look
	lookSlack  = 10               // a look that is younger than its interval by one part in so many is as good as a new one
)

// shared is what was seen last by those who look again and again. However many they are, the store is asked once in an interval, and not
// at all while there are none.
type shared[T any] struct {
	every time.Duration

	turn *semaphore.Weighted // of the one who looks: others wait for the same answer. What follows is theirs alone
	at   time.Time
	last T
}

func newShared[T any](every time.Duration) shared[T] {
	return shared[T]{every: every, turn: semaphore.NewWeighted(1)}
}

// read returns what was seen last, and looks if that is not new. look gets what was seen before, and returns it where the store cannot be
// read. The error is ctx's.
func (s *shared[T]) read(ctx context.Context, a *API, look func(ctx context.Context, last T) (T, error)) (last T, err error) {
	if err := s.turn.Acquire(ctx, 1); err != nil {
		return last, err
	}
	defer s.turn.Release(1)
	if !s.at.IsZero() && time.Since(s.at) < s.every-s.every/lookSlack {
		return s.last, nil
	}
	call, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	done, err := a.bounds.turn(call)
	if err == nil {
		defer done()
		var seen T
		if seen, err = look(call, s.last); err == nil {
			s.last = seen
		}
	}
	if ctx.Err() != nil {
		return last, ctx.Err() // the next one looks
	}
	s.at = time.Now()
	if err != nil {
		a.Log.Debug("the store cannot be read for the API's events", "err", err)
	}
	return s.last, nil
}
