package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// memory is a Store in memory, with the clock of the test.
type memory struct {
	rows  map[string]*store.Schedule
	next  map[string]time.Time
	fired map[string][]time.Time
	bad   map[string]string
	calls int
	fails error
}

func newMemory() *memory {
	return &memory{rows: map[string]*store.Schedule{}, next: map[string]time.Time{}, fired: map[string][]time.Time{}, bad: map[string]string{}}
}

func (m *memory) add(s Spec) {
	m.rows[s.Name] = &store.Schedule{ScheduleSpec: s, Created: time.Now()}
	m.next[s.Name] = time.Now()
}

func (m *memory) DueSchedules(_ context.Context, limit int) (d store.DueSchedules, err error) {
	m.calls++
	d.Now = time.Now()
	for name, at := range m.next {
		switch {
		case at.IsZero():
		case at.After(d.Now):
			if d.NextAt.IsZero() || at.Before(d.NextAt) {
				d.NextAt = at
			}
		case len(d.List) < limit:
			d.List = append(d.List, *m.rows[name])
		}
	}
	return d, m.fails
}

func (m *memory) ApplyFirings(_ context.Context, list []store.Firing) ([]bool, error) {
	done := make([]bool, len(list))
	for i, f := range list {
		r := m.rows[f.Name]
		if done[i] = r.Version == f.Version; !done[i] {
			continue
		}
		r.Version++
		if m.next[f.Name] = f.NextAt; f.Invalid != "" {
			m.bad[f.Name], m.next[f.Name] = f.Invalid, time.Time{}
			continue
		}
		r.Cursor, r.Queued = f.Cursor, f.Queued
		for _, row := range f.Rows {
			m.fired[f.Name] = append(m.fired[f.Name], row.Slot)
			r.LastSlot, r.LastTask, r.LastAt = row.Slot, r.LastTask+1, time.Now()
		}
	}
	return done, nil
}

func never(time.Time) bool { return false }

func TestEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, held := newMemory(), false
		e := NewEngine(m, "a", func(time.Time) bool { return held })
		for i := range 450 { // more than one transaction
			m.add(Spec{Name: fmt.Sprint("s", i), Task: "x", Every: "10s"})
		}
		m.add(Spec{Name: "bad", Task: "x", Cron: "0 0 * * *", Timezone: "Mars/Phobos"})
		did, err := e.Fire(t.Context(), 1000)
		require.NoError(t, err)
		require.Equal(t, 451, did.Looked)
		require.Equal(t, 451, did.Schedules)
		require.Contains(t, m.bad["bad"], "Mars/Phobos", "a row that cannot be parsed is marked, and the others go on")
		require.Contains(t, did.Invalid, "bad")
		require.Equal(t, 10*time.Second, did.Next)
		require.Len(t, e.plans, 450)

		<-time.After(11 * time.Second)
		held = true
		did, err = e.Fire(t.Context(), 1000)
		require.NoError(t, err)
		require.True(t, did.Held)
		require.Empty(t, m.fired)
		held = false
		did, err = e.Fire(t.Context(), 1000)
		require.NoError(t, err)
		require.Equal(t, 450, did.Rows)
		require.Len(t, m.fired, 450)
		require.Equal(t, 9*time.Second, did.Next)
		did, err = e.Fire(t.Context(), 1000)
		require.NoError(t, err)
		require.Zero(t, did.Looked)
	})
}

// TestOneOfTwoFires: of two agents that look at the same schedule, one fires it.
func TestOneOfTwoFires(t *testing.T) {
	m := newMemory()
	m.add(Spec{Name: "s", Task: "x", Every: "1s"})
	d, err := m.DueSchedules(t.Context(), 10)
	require.NoError(t, err)
	e := NewEngine(m, "a", never)
	list := []store.Firing{e.decide(&d.List[0], d.Now.Add(time.Second))}
	require.Len(t, list[0].Rows, 1)
	var did, other Fired
	require.NoError(t, e.apply(t.Context(), list, d.Now, &did))
	require.NoError(t, e.apply(t.Context(), list, d.Now, &other))
	require.Equal(t, 1, did.Rows)
	require.Zero(t, other.Rows)
	require.Len(t, m.fired["s"], 1)
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.add(Spec{Name: "s", Task: "x", Every: "1s"})
		m.add(Spec{Name: "rare", Task: "x", Every: "1d"})
		e := NewEngine(m, "a", never)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+500*time.Millisecond)
		defer cancel()
		metrics, log := telemetry.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler)
		l := NewLoop(Options{
			Settle: func(context.Context) error { return nil }, Fire: e.Fire, Poll: time.Minute, Log: log, Metrics: metrics,
		})
		require.NoError(t, l.Run(ctx))
		require.Len(t, m.fired["s"], 60)
		require.Less(t, m.calls, 130, "it looks when something is due, and once a second")

		m.fails, m.calls = errors.New("out of reach"), 0
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, l.Run(ctx))
		require.Less(t, m.calls, 30, "it backs off")
	})
}
