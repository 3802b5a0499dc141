package poll_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// door is a store whose schema may not admit the agent, or which is out of reach for a while.
type door struct {
	*wire
	binary int
	schema func() (store.Schema, error)
	tries  int
}

func (d *door) Join(ctx context.Context, a store.Agent) (task.Session, error) {
	d.tries++
	s, err := d.schema()
	if err == nil {
		err = s.Admits(d.binary)
	}
	if err != nil {
		return 0, err
	}
	return d.wire.Join(ctx, a)
}

// joining runs an engine before a door until it has run for a minute, and returns how Run ended.
func joining(t *testing.T, s *model.Store, d *door) error {
	t.Helper()
	d.wire, d.binary = &wire{Store: s, ops: map[string]int{}}, 7
	engine := poll.New(poll.Options{
		Store: d, Leases: d, Executor: &deeds{running: map[string]int{}, most: map[string]int{}, do: succeed},
		Agent: store.Agent{Name: "door", Presence: 15 * time.Second},
		Declarations: poll.Declarations{
			Types: []*task.Type{declare("a", 0)}, Workers: 1, Poll: time.Second, Drain: time.Second,
		},
		Clock: lease.RunClock(),
		Log:   slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
	})
	time.AfterFunc(time.Minute, engine.Drain)
	return engine.Run(t.Context())
}

func TestJoinFollowsTheSchemasRange(t *testing.T) {
	for _, c := range []struct {
		schema store.Schema
		joins  bool
	}{
		{store.Schema{Version: 7, Oldest: 7}, true},
		{store.Schema{Version: 8, Oldest: 7}, true},
		{store.Schema{Version: 8, Oldest: 8}, false},
		{store.Schema{Version: 6, Oldest: 1}, false},
		{store.Schema{}, false},
	} {
		bubble(t, func(t *testing.T, s *model.Store) {
			d := &door{schema: func() (store.Schema, error) { return c.schema, nil }}
			err := joining(t, s, d)
			require.Equal(t, 1, d.tries, "%+v: trying again does not help", c.schema)
			if c.joins {
				require.NoError(t, err)
				return
			}
			require.ErrorAs(t, err, new(*store.SchemaError))
		})
	}
}

func TestJoinWaitsForAStoreThatMayComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *model.Store) {
		began := time.Now()
		d := &door{schema: func() (store.Schema, error) {
			if time.Since(began) < 20*time.Second {
				return store.Schema{}, errors.New("the database starts up")
			}
			return store.Schema{Version: 7, Oldest: 7}, nil
		}}
		require.NoError(t, joining(t, s, d))
		require.Greater(t, d.tries, 2)
	})
	bubble(t, func(t *testing.T, s *model.Store) {
		d := &door{schema: func() (store.Schema, error) { return store.Schema{}, &store.AccessError{Text: "wrong password"} }}
		require.ErrorContains(t, joining(t, s, d), "wrong password")
		require.Equal(t, 1, d.tries)
	})
}
