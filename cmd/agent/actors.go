package main

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/run"
)

// actors are the parts of the running agent: when one ends, all are interrupted. oklog/run alone waits for each of
// them for ever and keeps only the first error, so here each has a bound, and every error is logged and kept.
type actors struct {
	group run.Group
	log   *slog.Logger

	mu   sync.Mutex
	errs []error
}

// part is one of them.
type part struct {
	name    string
	execute func() error
	// interrupt makes execute end; it must not block. cause is the error of the part that ended first, nil for none.
	interrupt func(cause error)
	// within is how long execute may take from then on; a part that takes longer is left behind, which is an error.
	within func(cause error) time.Duration
}

// always is a bound that does not depend on the cause.
func always(d time.Duration) func(error) time.Duration {
	return func(error) time.Duration { return d }
}

// add adds a part.
func (g *actors) add(p part) {
	interrupted := make(chan time.Duration, 1)
	g.group.Add(func() error {
		err := bounded(p.execute, interrupted)
		if err == errStopNow { //nolint:errorlint // that one as it is: no part has failed
			return err
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", p.name, err)
			g.log.Error("a part of the agent failed", "part", p.name, "err", err)
		} else {
			g.log.Debug("a part of the agent ended", "part", p.name)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.errs = append(g.errs, err)
		return err
	}, func(cause error) { // called once
		p.interrupt(cause)
		interrupted <- p.within(cause)
	})
}

// bounded runs f to its end, or until the time that stop gives has passed since.
func bounded(f func() error, stop <-chan time.Duration) error {
	var within time.Duration
	ended := make(chan error, 1)
	go func() { ended <- f() }() // ends with f, or with the process, which is about to end where f does not
	select {
	case err := <-ended:
		return err
	case within = <-stop:
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return fmt.Errorf("did not end within %s and was abandoned", within)
	}
}

// run runs all parts until the last has ended, and joins their errors; errStopNow is none.
func (g *actors) run() error {
	_ = g.group.Run() // the first error, which is among those that were kept
	g.mu.Lock()
	defer g.mu.Unlock()
	return errors.Join(g.errs...)
}
