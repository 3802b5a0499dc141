package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/test/storetest"
)

// releasedSchema stands in the recorded scripts for the schema's name.
const releasedSchema = "schema_of_a_release"

func TestReleasedMigrationsDoNotChange(t *testing.T) {
	s := openStore(t, postgres.Options{Schema: releasedSchema}) // nothing is there, and nothing is made
	status, err := s.Migrator().Status(t.Context())
	require.NoError(t, err)
	storetest.CheckReleased(t, storetest.Released{Newest: len(status), Script: func() (string, error) { return s.Migrator().SQL(0) }})
}

// TestReleasedSchemasGetTheSchema: each schema that a release has made gets to be what a new one is, by the migrations since.
func TestReleasedSchemasGetTheSchema(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t) // no partition has been made in it
	_, err := openStore(t, postgres.Options{Schema: schema}).Migrator().Up(t.Context())
	require.NoError(t, err)
	fresh := definitions(t, schema)
	require.Greater(t, len(fresh), 300)
	for name, script := range storetest.ReleasedScripts(t) {
		schema := pgtest.Schema(t)
		pgtest.Exec(t, strings.ReplaceAll(script, releasedSchema, schema))
		s := openStore(t, postgres.Options{Schema: schema})
		_, err := s.Migrator().Up(t.Context())
		require.NoError(t, err, name)
		require.NoError(t, s.Ping(t.Context()), name)
		storetest.RequireMigrated(t, name, fresh, definitions(t, schema))
	}
}

// definitions has everything in a schema by which calls could notice a difference: more than catalog, as a step may forget a default or a trigger.
// Columns come without their order, which statements do not rely on, and rights are those of everyone.
func definitions(t *testing.T, schema string) []string {
	t.Helper()
	rows, err := pgtest.Connect(t).Query(t.Context(), `
		SELECT 'relation ' || c.relname || ' ' || c.relkind::text || ' ' || c.relpersistence::text || coalesce(' ' || array_to_string(c.reloptions, ' '), '')
			|| CASE c.relkind WHEN 'v' THEN pg_get_viewdef(c.oid) WHEN 'i' THEN pg_get_indexdef(c.oid) WHEN 'p' THEN pg_get_partkeydef(c.oid) ELSE '' END
		FROM pg_class c WHERE c.relnamespace = $1::regnamespace
		UNION ALL SELECT 'column ' || c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || a.attnotnull || a.attidentity::text || a.attgenerated::text
			|| a.attstorage::text || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
		WHERE c.relnamespace = $1::regnamespace AND c.relkind <> 'i'
		UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
		FROM pg_constraint WHERE connamespace = $1::regnamespace
		UNION ALL SELECT 'trigger ' || pg_get_triggerdef(t.oid)
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = $1::regnamespace AND NOT t.tgisinternal
		UNION ALL SELECT 'function ' || pg_get_functiondef(oid) || ' ' || has_function_privilege('public', oid, 'EXECUTE')
		FROM pg_proc WHERE pronamespace = $1::regnamespace
		UNION ALL SELECT 'zone ' || name FROM `+schema+`.schedule_zone`, schema)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for i := range list {
		list[i] = storetest.Normal(strings.ReplaceAll(list[i], schema, "SCHEMA"))
	}
	return list
}
