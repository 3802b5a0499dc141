package worker

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/command"
	"github.com/leasehold/leasehold/internal/exec/command/guardian"
	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// guarded starts a worker that a guardian process watches.
func guarded(t *testing.T) *worker {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	r := command.New(command.Options{Log: log, Guardian: guardian.Self()})
	t.Cleanup(r.Close)
	c := declared(t, "plays")
	w, err := start(r, log, &task.Type{Name: "invoice.send", Target: c}, c, hooks{})
	require.NoError(t, err)
	t.Cleanup(func() { w.close() })
	require.NoError(t, w.awaitReady(c.Worker.Ready, nil))
	return w
}

// brief is a lease that ends some seconds from now.
func brief(t *testing.T, after time.Duration) *lease.Lease {
	t.Helper()
	l := exectest.Attempt{Policy: task.Policy{Timeout: after, Stop: 2 * time.Second}}.Lease()
	t.Cleanup(l.Close)
	return l
}

// TestGuardianEndsAnAttempt leaves an attempt alone until after its lease, as an agent that stands still does.
func TestGuardianEndsAnAttempt(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	l := brief(t, time.Second)
	w.window.open(l)
	left := l.EndsIn()
	select {
	case <-w.process.Exited():
	case <-time.After(left):
		require.Fail(t, "it lives when the lease has ended")
	}
	require.True(t, w.process.Killed())
	require.True(t, w.process.Overdue())
	require.False(t, w.usable())
}

// TestGuardianForgetsAnAttempt ends an attempt in time: the process lives on beyond the end of its lease, and the next attempt
// has a window of its own.
func TestGuardianForgetsAnAttempt(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	l := brief(t, 2*time.Second)
	w.window.open(l)
	require.True(t, w.window.shut(l))
	told := w.window.told
	require.NotEqual(t, command.Unbound, told, "what the guardian process knows stays for a while")
	next := brief(t, time.Minute)
	w.window.open(next)
	require.Equal(t, told, w.window.told, "a quick attempt costs no record")
	require.True(t, w.window.shut(next))
	select {
	case <-w.process.Exited():
		require.Fail(t, "it was killed for an attempt that is over")
	case <-time.After(l.EndsIn()):
	}
	w.window.mu.Lock()
	require.Equal(t, command.Unbound, w.window.told)
	w.window.mu.Unlock()
	require.True(t, w.usable())
}

// TestWindowIsNeverLater goes on with an attempt whose lease ends before that of the one before.
func TestWindowIsNeverLater(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	long, short := brief(t, time.Minute), brief(t, 5*time.Second)
	w.window.open(long)
	require.True(t, w.window.shut(long))
	w.window.open(short)
	require.InDelta(t, (w.process.Now() + short.EndsIn()).Seconds(), w.window.told.Seconds(), 0.1)
}

// TestNearItsEnd does not use a process again that the guardian process was about to kill.
func TestNearItsEnd(t *testing.T) {
	t.Parallel()
	w := guarded(t)
	l := exectest.Attempt{Policy: task.Policy{Timeout: 10 * time.Millisecond, Stop: 500 * time.Millisecond}}.Lease()
	defer l.Close()
	w.window.open(l)
	require.False(t, w.window.shut(l))
}
