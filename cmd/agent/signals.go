package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// errStopNow is why all parts are interrupted after a second signal; errLate, when draining took too long, which is a
// failure.
var (
	errStopNow = errors.New("stop at once")
	errLate    = fmt.Errorf("draining took too long: %w", errStopNow)
)

// signals turns SIGTERM and SIGINT into what the agent does about them: the first drains, the second stops at once. A
// third has its usual effect and ends the process on the spot.
type signals struct {
	caught chan os.Signal
	drain  func()        // on the first signal; must not block
	within time.Duration // how long draining may take; set anew before since is
	log    *slog.Logger
	asked  <-chan order // has the agent drain without a signal; nil: it takes signals only
	ended  chan struct{}
	since  atomic.Pointer[time.Time] // when the first signal came

	longest func() time.Duration // what within is at the first signal; nil: what it is
}

// orders passes on that the agent is to drain.
type orders struct{ drain chan order }

// order is why an agent drains that got no signal, for the log.
type order struct {
	by   string        // an operator, as far as that is known
	late time.Duration // it was not idle within this time; 0: an operator has it drain
}

func newOrders() *orders { return &orders{drain: make(chan order, 1)} }

// take takes in that an operator has the agent drain, and who that is; "": it was not said. It never blocks.
func (o *orders) take(by string) {
	o.give(order{by: by})
}

// expire has the agent drain because it was not idle in time. It never blocks.
func (o *orders) expire(timeout time.Duration) {
	o.give(order{late: timeout})
}

func (o *orders) give(what order) {
	select {
	case o.drain <- what:
	default:
	}
}

// draining reports whether draining has begun, and how long draining may still take; both at any time.
func (s *signals) draining() (left time.Duration, ok bool) {
	since := s.since.Load()
	if since == nil {
		return 0, false
	}
	return max(s.within-time.Since(*since), 0), true
}

// newSignals catches signals from now on; stop ends that.
func newSignals(log *slog.Logger, within time.Duration, asked <-chan order, drain func()) *signals {
	s := &signals{
		caught: make(chan os.Signal, 2), asked: asked, ended: make(chan struct{}), drain: drain, within: within, log: log,
	}
	signal.Notify(s.caught, syscall.SIGTERM, syscall.SIGINT)
	return s
}

// run waits for signals, and for an operator's order, until it is interrupted. It ends with errStopNow on the second, with errLate when draining
// after the first takes too long.
func (s *signals) run() error {
	timer := time.NewTimer(s.within)
	defer timer.Stop()
	var late <-chan time.Time // once draining
	begin := func() <-chan time.Time {
		now := time.Now()
		s.since.Store(&now)
		timer.Reset(s.within)
		s.drain()
		return timer.C
	}
	for {
		select {
		case <-s.ended:
			return nil
		case sig := <-s.caught:
			if late != nil {
				s.log.Warn("stopping at once", "signal", sig.String())
				signal.Stop(s.caught)
				return errStopNow
			}
			s.bound()
			s.log.Info("draining: a second signal stops at once", "signal", sig.String(), "within", s.within)
			late = begin()
		case o := <-s.asked:
			if late != nil {
				continue // it drains already
			}
			s.bound()
			if o.late > 0 {
				s.log.Info("draining: the agent was not idle in time", "timeout", o.late, "within", s.within)
			} else {
				s.log.Info("draining as an operator asked: the agent exits, and starts again if a supervisor starts it",
					"by", o.by, "within", s.within)
			}
			late = begin()
		case <-late:
			return errLate
		}
	}
}

// bound sets within for the first signal.
func (s *signals) bound() {
	if s.longest != nil {
		s.within = s.longest()
	}
}

// interrupt ends run.
func (s *signals) interrupt(error) { close(s.ended) }

// stop stops catching signals.
func (s *signals) stop() { signal.Stop(s.caught) }

// survivePipes keeps the process alive when the reader of its logs goes away: that is no reason to leave tasks behind.
// The signal is caught rather than ignored: children would inherit that, and `yes | head` would never end.
func survivePipes() (stop func()) {
	c := make(chan os.Signal, 1) // it is never read
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// catchHangups catches SIGHUP, which has an agent read its configuration again: a closed terminal is no reason to leave tasks behind. The
// signal is caught rather than ignored, as children would inherit that; where nohup has the process ignore it already, all stays
// as it is, and caught is nil. Of several signals at once one is kept. stop ends that.
func catchHangups() (caught <-chan os.Signal, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return nil, func() {}
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}
