package postgres_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// nextVersion has one step more, which adds a column in the place where schema.sql has it, and changes a function.
func nextVersion() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"schema.sql": file(strings.Replace(postgres.File("schema.sql"),
			"CREATE TABLE {schema}.removal ();", "CREATE TABLE {schema}.removal (since timestamptz);", 1)),
		"functions/hold.sql": file(strings.Replace(postgres.File("functions/hold.sql"),
			"BEGIN\n", "BEGIN\n    PERFORM FROM {schema}.removal AS r WHERE r.since IS NULL;\n", 1)),
		"migrations/0002_since.up.sql": file("-- oldest: 2\nALTER TABLE {schema}.removal ADD COLUMN since timestamptz;"),
		"migrations/0002_since.down.sql": file(
			postgres.File("functions/hold.sql") + "\nALTER TABLE {schema}.removal DROP COLUMN since;"),
	}
}

// TestStepsLeadToTheSchema takes an older store through the steps, by Up and by the printed script, and compares it with a
// new one. Rights on functions stay: they are replaced and not dropped.
func TestStepsLeadToTheSchema(t *testing.T) {
	t.Parallel()
	older, byHand, fresh := newFreshHarness(t), newFreshHarness(t), pgtest.Schema(t)
	before := catalog(t, older.schema)
	asRole := pgtest.Role(t, func(role string) string {
		return `GRANT USAGE ON SCHEMA ` + older.schema + ` TO ` + role +
			`; GRANT EXECUTE ON FUNCTION ` + older.schema + `.enqueue TO ` + role
	})
	next := openStore(t, postgres.Options{Schema: older.schema})
	next.WithFiles(nextVersion())
	require.ErrorContains(t, next.Ping(t.Context()), "version 1")
	applied, err := next.Migrator().Up(t.Context())
	require.NoError(t, err)
	require.Len(t, applied, 1)
	require.NoError(t, next.Ping(t.Context()))
	require.Error(t, older.Ping(t.Context()))
	_, err = pgtest.ConnectTo(t, asRole).Exec(t.Context(), older.q(`SELECT SCHEMA.enqueue('a')`))
	require.NoError(t, err)

	s := openStore(t, postgres.Options{Schema: byHand.schema})
	s.WithFiles(nextVersion())
	script, err := s.Migrator().SQL(1)
	require.NoError(t, err)
	require.NotContains(t, strings.SplitAfter(script, "-- functions")[0], "CREATE TABLE", "the schema is not made anew")
	pgtest.Exec(t, script)

	s = openStore(t, postgres.Options{Schema: fresh})
	s.WithFiles(nextVersion())
	applied, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	require.Len(t, applied, 2)
	for _, other := range []string{older.schema, byHand.schema} {
		if d := cmp.Diff(catalog(t, fresh), catalog(t, other)); d != "" {
			t.Fatal(d)
		}
	}
	require.NotEqual(t, before, catalog(t, older.schema))
	taken, err := next.Migrator().Down(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, taken.Version)
	require.NoError(t, older.Ping(t.Context()))
	if d := cmp.Diff(before, catalog(t, older.schema)); d != "" {
		t.Fatal(d)
	}
}

// TestStepsAreComplete: a gap, a step with no way back, and one that does not declare a possible range are found.
func TestStepsAreComplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"0003_c", "-- oldest: 1", "the number should be 0002"},
		{"0002_b", "-- oldest: 1", "0002_b.down.sql"},
		{"0002_b", "ALTER TABLE x ADD y int; -- oldest: 1", "the first line must say"},
		{"0002_b", "-- oldest: 3", "between 1, that of the step before, and 2"},
	} {
		s := openStore(t, postgres.Options{})
		s.WithFiles(fstest.MapFS{"migrations/" + c.name + ".up.sql": &fstest.MapFile{Data: []byte(c.text)}})
		_, err := s.Migrator().Status(t.Context())
		require.ErrorContains(t, err, c.want)
	}
}
