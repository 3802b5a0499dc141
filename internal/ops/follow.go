package ops

import (
	"context"
	"time"
)

// Bounds of following what changes in the store.
const (
	followShare    = 4                // it rests at least this many times as long as a look took
	followPatience = 30 * time.Second // a store that fails for this long is an error
)

// follow calls look until it reports that nothing is left to wait for, fails, or ctx ends, whose error it then returns. It
// rests for first after a change, then for twice as long each time, up to longest. Looking never takes more than a fifth of
// the time.
func follow(ctx context.Context, first, longest time.Duration, look func() (changed, done bool, err error)) error {
	pause := first
	for {
		start := time.Now()
		changed, done, err := look()
		switch {
		case err != nil || done:
			return err
		case changed:
			pause = first
		default:
			pause = min(2*pause, longest)
		}
		rest := time.NewTimer(max(pause, followShare*time.Since(start)))
		select {
		case <-ctx.Done():
			rest.Stop()
			return ctx.Err()
		case <-rest.C:
		}
	}
}

// patience outlasts a store that fails for a while, as in a failover. The zero value has not seen it fail.
type patience struct{ since time.Time }

// worked notes that the store answered.
func (p *patience) worked() { p.since = time.Time{} }

// failed takes the error of a call: nil says that it is to be tried again later, and anything else is final. trouble, which may
// be nil, is called with the first error.
func (p *patience) failed(err error, trouble func(error)) error {
	switch {
	case p.since.IsZero():
		p.since = time.Now()
		if trouble != nil {
			trouble(err)
		}
	case time.Since(p.since) > followPatience:
		return err
	}
	return nil
}
