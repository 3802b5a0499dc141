package command

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec/exectest"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What the process of an attempt does is reported once the attempt has said nothing for a while, and no longer than it runs.
func TestSilentAttemptsAreLookedAt(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r := New(Options{Log: slog.New(slog.DiscardHandler)})
	defer r.Close()
	l := exectest.Attempt{}.Lease()
	defer l.Close()
	running, over := make(chan struct{}), make(chan task.Outcome)
	c := shell("while :; do :; done")
	go func() { over <- r.Run(l, declared(c), c, func() { close(running) }) }()
	<-running
	require.Empty(t, r.Processes(), "it has only just begun")
	var p store.RunningProcess
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); <-tick.C {
		if all := r.Processes(); len(all) == 1 && all[0].CPU >= 100 {
			p = all[0]
			break
		}
	}
	require.Equal(t, l.Task().ID, p.Task)
	require.Equal(t, store.ProcessRunning, p.State)
	require.Equal(t, 1, p.Processes)
	require.GreaterOrEqual(t, p.Over, silentFor.Milliseconds(), "since it began")
	l.Stop(&lease.Cause{Verdict: task.Cancelled})
	require.Equal(t, task.Cancelled, (<-over).Verdict)
	require.Empty(t, r.Processes())
}

// CPU time counts from the start of a process of its own, and from the first look after each ping, as well as in a worker, which has used some
// before.
func TestCPUTimeCountsFromThePing(t *testing.T) {
	own, worker := &observed{alone: true}, &observed{}
	silence := func(since, length time.Duration, pinged bool) lease.Silence {
		return lease.Silence{Since: since, For: length, Pinged: pinged}
	}
	for _, c := range []struct {
		of         *observed
		cpu        time.Duration
		s          lease.Silence
		used, over time.Duration
	}{
		{own, 3 * time.Second, silence(100*time.Second, 4*time.Second, false), 3 * time.Second, 4 * time.Second},
		{own, 5 * time.Second, silence(100*time.Second, 6*time.Second, false), 5 * time.Second, 6 * time.Second},
		{own, 7 * time.Second, silence(107*time.Second, 2*time.Second, true), 0, 0},
		{own, 8 * time.Second, silence(107*time.Second, 4*time.Second, true), time.Second, 2 * time.Second},
		{own, 6 * time.Second, silence(107*time.Second, 5*time.Second, true), 0, 3 * time.Second}, // a descendant has ended
		{worker, 90 * time.Second, silence(100*time.Second, 2*time.Second, false), 0, 0},
		{worker, 91 * time.Second, silence(100*time.Second, 4*time.Second, false), time.Second, 2 * time.Second},
	} {
		used, over := c.of.used(c.cpu, c.s)
		require.Equal(t, []time.Duration{c.used, c.over}, []time.Duration{used, over})
	}
}
