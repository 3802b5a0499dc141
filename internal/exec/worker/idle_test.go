package worker

import (
	"bytes"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestIdleEnd(t *testing.T) {
	c := declared(t, "plays")
	c.Worker.Idle = 50 * time.Millisecond
	p := play(t, c)
	before := echo(t, p)
	require.Eventually(t, func() bool { return syscall.Kill(before.PID, 0) != nil }, 10*time.Second, 5*time.Millisecond)
	require.NotEqual(t, before.PID, echo(t, p).PID)
}

// TestIdleEndMeetsAnAttempt has processes end for being idle at the moment in which attempts want them: none is forgotten, which
// play sees.
func TestIdleEndMeetsAnAttempt(t *testing.T) {
	c := declared(t, "plays")
	c.Worker.Idle = time.Nanosecond
	p := play(t, c)
	for range 200 {
		o := run(t, p, do("echo"))
		require.Contains(t, []task.Verdict{task.Succeeded, task.Drained}, o.Verdict, o.Error)
	}
}

// TestTakeOld takes a process only where it is idle at that moment.
func TestTakeOld(t *testing.T) {
	p := &Pool{command: &task.Command{Worker: &task.Worker{Idle: time.Minute}}}
	w := &worker{since: time.Now().Add(-time.Hour)}
	require.Equal(t, time.Minute, p.takeOld(w), "it runs an attempt")
	require.Zero(t, p.ending)
	p.idle = []*worker{w}
	require.Zero(t, p.takeOld(w))
	require.Empty(t, p.idle)
	require.Equal(t, 1, p.ending)
	w.since = time.Now().Add(-45 * time.Second)
	p.idle = []*worker{w}
	require.InDelta(t, 15, p.takeOld(w).Seconds(), 5)
	require.Len(t, p.idle, 1)
}

// TestDiesIdle finds that a worker has ended which ran nothing.
func TestDiesIdle(t *testing.T) {
	p := play(t, declared(t, "plays"))
	before := echo(t, p)
	require.NoError(t, syscall.Kill(before.PID, syscall.SIGKILL))
	require.Eventually(t, func() bool { n, _ := p.Room(); return n == 2 && syscall.Kill(before.PID, 0) != nil }, 10*time.Second, 5*time.Millisecond)
	require.NotEqual(t, before.PID, echo(t, p).PID)
	require.Zero(t, p.failures, "it had run an attempt")
}

// TestEndsUnused counts a process that ends after it was ready and before it has an attempt as one that did not start.
func TestEndsUnused(t *testing.T) {
	p := play(t, declared(t, "ends"))
	p.mu.Lock()
	p.boot()
	p.mu.Unlock()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.total == 0
	}, 10*time.Second, 5*time.Millisecond)
	require.Equal(t, 1, p.failures)
	require.ErrorContains(t, p.failure, "it ended before it was ")
	require.True(t, p.until.After(p.failed))
}

// TestRoomWhileOneEnds claims nothing for a process that is being ended.
func TestRoomWhileOneEnds(t *testing.T) {
	p := &Pool{typ: &task.Type{Workers: 1}, command: &task.Command{Worker: &task.Worker{Processes: 1}}}
	p.total, p.ending = 1, 1
	n, wait := p.Room()
	require.Zero(t, n)
	require.Equal(t, lookAgain, wait)
}

// TestBackoffOutlivesOtherWorkers keeps pauses growing where starts fail while another process runs attempts.
func TestBackoffOutlivesOtherWorkers(t *testing.T) {
	p := play(t, declared(t, "plays"))
	echo(t, p)
	for range 4 {
		p.mu.Lock()
		p.fail(errNotReady, "", time.Now(), true)
		p.mu.Unlock()
		echo(t, p)
		require.Zero(t, p.failures)
	}
	require.Greater(t, p.until.Sub(p.failed), 700*time.Millisecond)
}

// TestEndIsQuick ends the pool of a worker that goes on after the end of its standard input: it is stopped before its grace is over.
func TestEndIsQuick(t *testing.T) {
	c := declared(t, "stays")
	c.StopGrace = time.Minute
	p := play(t, c)
	before := echo(t, p)
	began := time.Now()
	p.Close()
	require.Less(t, time.Since(began), 20*time.Second)
	require.ErrorIs(t, syscall.Kill(before.PID, 0), syscall.ESRCH)
}

// TestLateOutput logs once what a worker prints between attempts, so that one who always does fills no log.
func TestLateOutput(t *testing.T) {
	var logged bytes.Buffer
	w := &worker{log: slog.New(slog.NewTextHandler(&logged, nil))}
	w.passOver("a banner\n")
	require.Contains(t, logged.String(), `msg="output of a worker's start" output="a banner"`)
	for w.runs = 1; w.runs < 4; w.runs++ {
		w.passOver("late\n")
		w.passOver("")
	}
	require.Equal(t, 2, strings.Count(logged.String(), "output="))
}
