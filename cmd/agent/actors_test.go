package main

import (
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// obedient is a part that ends err when it is interrupted.
func obedient(name string, err error) part {
	stop := make(chan struct{})
	return part{
		name:      name,
		execute:   func() error { <-stop; return err },
		interrupt: func(error) { close(stop) },
		within:    always(time.Second),
	}
}

func TestActorsKeepEveryError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := &actors{log: quiet()}
		first, later := errors.New("first"), errors.New("later")
		group.add(part{"breaks", func() error { return first }, func(error) {}, always(0)})
		group.add(obedient("fails at its end", later))
		group.add(obedient("is well", nil))
		err := group.run()
		require.ErrorIs(t, err, first)
		require.ErrorIs(t, err, later)
		require.ErrorContains(t, err, "breaks: first")
	})
}

func TestActorsLeaveBehindWhoDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		group := &actors{log: quiet()}
		group.add(part{"ends", func() error { return nil }, func(error) {}, always(time.Second)})
		group.add(part{"hangs", func() error { <-never; return nil }, func(error) {}, always(time.Minute)})
		start := time.Now()
		require.ErrorContains(t, group.run(), "hangs: did not end within 1m0s")
		require.Equal(t, time.Minute, time.Since(start))
	})
}

func TestActorsReportTheCause(t *testing.T) {
	group := &actors{log: quiet()}
	var causes []error
	p := obedient("other", nil)
	end := p.interrupt
	p.interrupt = func(cause error) { causes = append(causes, cause); end(cause) }
	p.within = func(cause error) time.Duration { causes = append(causes, cause); return time.Second }
	group.add(p)
	group.add(part{"signals", func() error { return errStopNow }, func(error) {}, always(0)})
	require.NoError(t, group.run(), "no part has failed")
	require.Equal(t, []error{errStopNow, errStopNow}, causes)
}

func TestActorsFailWhereDrainingIsLate(t *testing.T) {
	group := &actors{log: quiet()}
	group.add(obedient("other", nil))
	group.add(part{"signals", func() error { return errLate }, func(error) {}, always(0)})
	err := group.run()
	require.ErrorIs(t, err, errLate)
	require.ErrorIs(t, err, errStopNow, "the loop stops at once then, too")
}

// signalled is a signals that gets its signals from the test.
func signalled(t *testing.T) (s *signals, drained chan struct{}, ended chan error) {
	drained, ended = make(chan struct{}, 9), make(chan error, 1)
	s = newSignals(quiet(), time.Minute, nil, func() { drained <- struct{}{} })
	s.stop() // the process's own: only what the test sends counts
	t.Cleanup(s.stop)
	go func() { ended <- s.run() }()
	return s, drained, ended
}

func TestAnOrderDrainsAsASignalDoes(t *testing.T) {
	o := newOrders()
	o.take("alice")
	o.take("bob") // it never blocks
	drained, ended := make(chan struct{}, 9), make(chan error, 1)
	s := newSignals(quiet(), time.Minute, o.drain, func() { drained <- struct{}{} })
	s.stop()
	t.Cleanup(s.stop)
	go func() { ended <- s.run() }()
	<-drained
	o.take("carol")
	s.caught <- syscall.SIGTERM
	require.ErrorIs(t, <-ended, errStopNow, "the next signal is the second")
	require.Empty(t, drained, "it drains once")
}

func TestFirstSignalDrainsSecondStops(t *testing.T) {
	s, drained, ended := signalled(t)
	_, draining := s.draining()
	require.False(t, draining)
	s.caught <- syscall.SIGTERM
	<-drained
	left, draining := s.draining()
	require.True(t, draining)
	require.LessOrEqual(t, left, time.Minute)
	s.caught <- syscall.SIGINT
	require.ErrorIs(t, <-ended, errStopNow)
	require.Empty(t, drained, "it drains once")
}

func TestDrainingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &signals{
			caught: make(chan os.Signal, 2), ended: make(chan struct{}), drain: func() {}, within: time.Minute, log: quiet(),
		}
		start := time.Now()
		s.caught <- syscall.SIGTERM
		require.ErrorIs(t, s.run(), errLate)
		require.Equal(t, time.Minute, time.Since(start))
		left, _ := s.draining()
		require.Zero(t, left)
	})
}

func TestSignalsEndWithTheRest(t *testing.T) {
	s, _, ended := signalled(t)
	s.interrupt(nil)
	require.NoError(t, <-ended)
}
