package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// binary is the schema version of the agents of these tests.
const binary = 7

// ranged is a store of which only the schema is known.
type ranged struct {
	dataStore
	schema  store.Schema
	refused error // the server refuses the agent
	steps   []store.Migration
}

func (r *ranged) Ping(context.Context) error {
	if r.refused != nil {
		return r.refused
	}
	return r.schema.Admits(binary)
}

func (r *ranged) Migrator() store.Migrator { return rangedMigrator{s: r} }

type rangedMigrator struct {
	store.Migrator
	s *ranged
}

func (m rangedMigrator) Up(context.Context) ([]store.Migration, error) {
	n, err := m.s.schema.Missing(binary)
	for range n {
		m.s.schema.Version++
		m.s.schema.Oldest = m.s.schema.Version
		m.s.steps = append(m.s.steps, store.Migration{Version: m.s.schema.Version})
	}
	return m.s.steps, err
}

// present is an engine whose session is present.
type present struct{ *poll.Engine }

func (present) Fit() bool { return true }

// A running agent stays ready while another binary migrates, as long as the schema admits it.
func TestReadinessFollowsTheSchemasRange(t *testing.T) {
	s := &ranged{}
	a := &agent{store: s, engine: present{}, metrics: &telemetry.Metrics{Outage: &telemetry.Outage{}}, log: quiet()}
	for _, c := range []struct {
		schema store.Schema
		ready  bool
	}{
		{store.Schema{Version: 7, Oldest: 7}, true},
		{store.Schema{Version: 8, Oldest: 7}, true},
		{store.Schema{Version: 9, Oldest: 5}, true},
		{store.Schema{Version: 9, Oldest: 8}, false},
		{store.Schema{Version: 8}, false},
		{store.Schema{Version: 6, Oldest: 6}, false},
		{store.Schema{}, false},
		{store.Schema{Version: 8, Oldest: 7}, true}, // again
	} {
		s.schema = c.schema
		err := a.reachable(t.Context())
		if c.ready {
			require.NoError(t, err, "%+v", c.schema)
			continue
		}
		require.ErrorAs(t, err, new(*store.SchemaError), "%+v", c.schema)
	}
}

// What `run --migrate` does before the agent starts: it brings an older schema up to date, and leaves a newer one alone.
func TestMigrateUpFollowsTheSchemasRange(t *testing.T) {
	for _, c := range []struct {
		schema  store.Schema
		refused error
		steps   int
		remedy  string // "": the agent starts
	}{
		{schema: store.Schema{}, steps: 7},
		{schema: store.Schema{Version: 5, Oldest: 5}, steps: 2},
		{schema: store.Schema{Version: 7, Oldest: 7}},
		{schema: store.Schema{Version: 8, Oldest: 7}},
		{schema: store.Schema{Version: 8, Oldest: 8}, remedy: "use a newer leasehold"},
		{schema: store.Schema{}, refused: &store.AccessError{Text: "grant the role USAGE"}, remedy: "grant the role USAGE"},
	} {
		s := &ranged{schema: c.schema, refused: c.refused}
		err := migrateUp(t.Context(), s, &telemetry.Outage{}, quiet())
		require.Len(t, s.steps, c.steps, "%+v", c.schema)
		if c.remedy != "" {
			require.ErrorContains(t, err, c.remedy)
			require.True(t, store.NeedsOperator(err))
			require.Equal(t, c.schema, s.schema)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, s.Ping(t.Context()), "the agent may work on it")
	}
}

// A store that is out of reach is waited for, but not in silence, and not for ever.
func TestMigrateUpSaysThatItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged journal
		s := &ranged{refused: errors.New("connection refused")}
		err := migrateUp(t.Context(), s, &telemetry.Outage{}, slog.New(slog.NewTextHandler(&logged, nil)))
		require.EqualError(t, err, "waited 31s for the store: connection refused")
		require.Empty(t, s.steps)
		lines := logged.lines()
		require.Len(t, lines, 3, "%s", lines)
		require.Contains(t, lines[1], "for=10s")
		require.Contains(t, lines[2], "for=30s")
	})
}
