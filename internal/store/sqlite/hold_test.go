package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// What docs/sql.md says that a hold costs on SQLite: it is the application's transaction for writing, and there is one
// writer.

// hold begins an application's transaction that holds the row.
func (h *harness) hold(t *testing.T, row task.Task) (commit func()) {
	t.Helper()
	a := h.Begin(t)
	require.NoError(t, a.Hold(t.Context(), row.ID, row.Fence))
	return func() { require.NoError(t, a.Commit(t.Context())) }
}

// Everything that writes waits for the hold's end, and then goes through as if nothing had been; what only reads does
// not wait.
func TestAHoldMakesWritesWait(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	row := h.held(t, s, p, task.Run, 1, 0)[0]
	for name, write := range map[string]func() error{
		"a renewal": func() error {
			answers, err := h.Renew(t.Context(), s, []store.Renewal{{ID: row.ID, Fence: row.Fence, Window: time.Hour}})
			return errors.Join(err, applied(answers...))
		},
		"a heartbeat": func() error {
			_, err := h.Present(t.Context(), store.Heartbeat{Session: s, Agent: store.Agent{Name: "a", Presence: time.Hour}})
			return err
		},
		"a ping": func() error {
			replies, err := h.TakePings(t.Context(), []store.RemotePing{{ID: row.ID, Fence: row.Fence}})
			return errors.Join(err, applied(replies[0].Answer))
		},
		"a cancellation": func() error {
			_, err := h.Cancel(t.Context(), row.ID, "")
			return err
		},
	} {
		commit := h.hold(t, row)
		var over atomic.Bool
		begun, written := make(chan struct{}), make(chan error, 1)
		go func() {
			close(begun)
			err := write()
			if !over.Load() {
				err = errors.Join(err, errors.New("it did not wait"))
			}
			written <- err
		}()
		<-begun
		_, err := h.Get(t.Context(), row.ID)
		require.NoError(t, err, "reads go on")
		_, err = h.Completed(t.Context(), []store.Held{{ID: row.ID, Fence: row.Fence}})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return h.write.queue.busy() }, 10*time.Second, time.Millisecond, name)
		over.Store(true)
		commit()
		require.NoError(t, <-written, name)
	}
}

func applied(answers ...store.Answer) error {
	for _, a := range answers {
		if a != store.Applied {
			return errors.New(a.String())
		}
	}
	return nil
}

// While the hold is open no agent can take the row away, even after its window has closed and its agent is dead.
func TestAHeldRowIsNotTakenAway(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	row := h.held(t, s, p, task.Run, 1, 0)[0]
	other := open(t, Options{Path: h.path, Busy: 100 * time.Millisecond})
	sweeper, err := other.Join(t.Context(), store.Agent{Name: "b", Presence: time.Hour})
	require.NoError(t, err)
	require.NoError(t, other.Leave(t.Context(), s), "its agent is gone")

	a := h.Begin(t)
	require.NoError(t, a.Hold(t.Context(), row.ID, row.Fence))
	_, err = other.Sweep(t.Context(), sweeper, 10, time.Minute, calm)
	require.ErrorContains(t, err, "another program has kept the file locked for 100ms: its transaction must commit or roll back")
	require.NoError(t, a.Complete(t.Context(), row.ID, row.Fence, nil))
	require.NoError(t, a.Commit(t.Context()))
	reaped, err := other.Sweep(t.Context(), sweeper, 10, time.Minute, calm)
	require.NoError(t, err)
	require.Empty(t, reaped, "it had completed")
}

// Outside of a transaction a hold is over as soon as it is made.
func TestAHoldByItselfHoldsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	row := h.held(t, s, p, task.Run, 1, 0)[0]
	require.NoError(t, h.exec(t, "INSERT INTO hold (id, fence) VALUES (?, ?)", int64(row.ID), int64(row.Fence)))
	answers, err := h.Settle(t.Context(), s, settleAll(row))
	require.NoError(t, err)
	require.NoError(t, applied(answers...))
}

// An agent that cannot write its presence because an application holds on for too long stops its work in time, and goes
// on when that is over.
func TestAgentsStopTheirWorkWhenAHoldOutlastsPresence(t *testing.T) {
	t.Parallel()
	const presence = 2 * time.Second
	path := filepath.Join(t.TempDir(), "store.db")
	h := openHarness(t, path, nil)
	_, err := h.Migrator().Up(t.Context())
	require.NoError(t, err)
	p := task.Policy{Timeout: time.Hour, Stop: 500 * time.Millisecond}
	clock := lease.RunClock()
	prolonged := make(chan time.Duration, 1000)
	k := lease.NewKeeper(lease.KeeperOptions{
		Store: h.Store, Remote: h.Store, Clock: clock, Log: slog.New(slog.DiscardHandler),
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
		Agent: store.Agent{
			Name: "a", Presence: presence, Types: []string{"x"},
			Policies: map[task.PolicyHash]store.NamedPolicy{p.Hash("a"): {Type: "x", Policy: p}},
		},
		Present: func(until time.Duration) { prolonged <- until },
	})
	require.NoError(t, k.Join(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		k.Run(ctx)
	}()
	defer func() {
		cancel()
		<-over
	}()

	sent := clock.Now()
	row := h.held(t, k.Session(), p, task.Run, 1, 0)[0]
	l := k.Open(1, []lease.Row{{Task: &row, Policy: &p}}, sent)[0]
	<-prolonged // Join
	<-prolonged // and it shows up
	commit := h.hold(t, row)
	select {
	case <-l.Context().Done():
	case <-time.After(time.Minute):
		require.Fail(t, "it works on after its session expired")
	}
	require.Equal(t, task.Drained, l.Cause().Verdict)
	require.Contains(t, l.Cause().Error(), "the store was out of reach")
	require.False(t, k.Fit(), "nothing new is begun")
	for len(prolonged) > 0 {
		<-prolonged
	}
	commit()
	<-prolonged
	answers, err := h.Renew(t.Context(), k.Session(), []store.Renewal{{ID: row.ID, Fence: row.Fence, Window: time.Minute}})
	require.NoError(t, err)
	require.NoError(t, applied(answers...), "no other agent was able to take the row, either")
}
