package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestSchemaRange: what a store does on a schema that is not the binary's follows from the range that the newest step declares.
func TestSchemaRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, change string
		have         store.Schema
		admits       bool
	}{
		{"the binary's own", ``, store.Schema{Version: 1, Oldest: 1}, true},
		{"an additive step ahead", `INSERT INTO SCHEMA.schema_version (version, name, oldest) VALUES (2, 'later', 1)`,
			store.Schema{Version: 2, Oldest: 1}, true},
		{"many additive steps ahead", `INSERT INTO SCHEMA.schema_version (version, name, oldest) VALUES (2, 'b', 1), (3, 'c', 1)`,
			store.Schema{Version: 3, Oldest: 1}, true},
		{"an additive step after one that is not",
			`INSERT INTO SCHEMA.schema_version (version, name, oldest) VALUES (2, 'b', 2), (3, 'c', 2)`,
			store.Schema{Version: 3, Oldest: 2}, false},
		{"a step ahead that is not additive", `INSERT INTO SCHEMA.schema_version (version, name, oldest) VALUES (2, 'later', 2)`,
			store.Schema{Version: 2, Oldest: 2}, false},
	} {
		h := newFreshHarness(t)
		if c.change != "" {
			h.exec(t, c.change)
		}
		have, err := h.Migrator().Schema(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.have, have, c.name)
		status, err := h.Migrator().Status(t.Context())
		require.NoError(t, err)
		require.Len(t, status, 1, c.name)
		require.NotNil(t, status[0].Applied, c.name)
		require.Equal(t, 1, status[0].Oldest)
		applied, up := h.Migrator().Up(t.Context())
		require.Empty(t, applied, c.name)
		_, join := h.Join(t.Context(), store.Agent{Name: "test", Types: []string{"a"}})
		for what, err := range map[string]error{"ping": h.Ping(t.Context()), "join": join, "up": up} {
			if c.admits {
				require.NoError(t, err, "%s: %s", c.name, what)
				continue
			}
			require.True(t, store.IsTooNew(err), "%s: %s: %v", c.name, what, err)
		}
		if c.have.Version > 1 {
			_, err = h.Migrator().Down(t.Context())
			require.ErrorContains(t, err, "use a newer leasehold", c.name)
			require.NotNil(t, status[0].Applied)
		}
		now, err := h.Migrator().Schema(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.have, now, "%s: nothing has changed", c.name)
	}
}

// TestSchemaRangeIsDeclared: no row of the versions is without a possible range.
func TestSchemaRangeIsDeclared(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	conn := pgtest.Connect(t)
	for _, bad := range []string{
		`INSERT INTO SCHEMA.schema_version (version, name) VALUES (2, 'b')`,
		`INSERT INTO SCHEMA.schema_version (version, name, oldest) VALUES (2, 'b', 3)`,
		`INSERT INTO SCHEMA.schema_version (version, name, oldest) VALUES (2, 'b', 0)`,
	} {
		_, err := conn.Exec(t.Context(), h.q(bad))
		require.ErrorContains(t, err, "oldest", bad)
	}
}
