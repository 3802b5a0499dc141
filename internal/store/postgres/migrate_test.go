package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

func someAgent() store.Agent {
	return store.Agent{Name: "test", Version: "test", Types: []string{"a"}, Presence: week}
}

func TestTenAgentsMigrateAtOnce(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	var g errgroup.Group
	applied := make([]int, 10)
	for i := range applied {
		s := openStore(t, postgres.Options{Schema: schema, Connections: 1})
		g.Go(func() error {
			did, err := s.Migrator().Up(t.Context())
			if err != nil {
				return err
			}
			applied[i] = len(did)
			_, err = s.Join(t.Context(), someAgent())
			return err
		})
	}
	require.NoError(t, g.Wait())
	sum := 0
	for _, n := range applied {
		sum += n
	}
	status, err := openStore(t, postgres.Options{Schema: schema}).Migrator().Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(status), sum, "each step is applied by one")
	require.NotNil(t, status[0].Applied)
}

// TestNoSchemaIsNoError: to look for a schema that is not there yet, as each first start does, is no error in the server's log.
func TestNoSchemaIsNoError(t *testing.T) {
	t.Parallel()
	s := openStore(t, postgres.Options{Schema: pgtest.Schema(t)})
	conn, err := pgx.Connect(t.Context(), pgtest.URL(t))
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	have, err := s.ReadVersion(t.Context(), tx)
	require.NoError(t, err)
	require.Zero(t, have)
	_, err = tx.Exec(t.Context(), "SELECT 1")
	require.NoError(t, err, "an error would have ended the transaction")
	require.NoError(t, tx.Rollback(t.Context()))
	require.True(t, store.IsOutdated(s.Ping(t.Context())))
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Ping(t.Context()))
}

func TestMigrateDownAndUpAgain(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	_, err = h.Migrator().Down(t.Context())
	require.ErrorContains(t, err, "1 agents are present")
	require.NoError(t, h.Leave(t.Context(), session))
	for {
		gone, err := h.Migrator().Down(t.Context())
		if err != nil {
			require.ErrorContains(t, err, "nothing to take back")
			break
		}
		require.NotEmpty(t, gone.Name)
	}
	require.Zero(t, h.number(t, `SELECT count(*) FROM pg_class WHERE relnamespace = 'SCHEMA'::regnamespace
		AND relkind IN ('r', 'p', 'v', 'S') AND relname <> 'schema_version'`))
	require.Zero(t, h.number(t, `SELECT count(*) FROM pg_proc WHERE pronamespace = 'SCHEMA'::regnamespace`))
	_, err = h.Migrator().Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Ping(t.Context()))
}

func TestForeignSchemas(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	check := func(have int) {
		t.Helper()
		var wrong *store.SchemaError
		require.ErrorAs(t, h.Ping(t.Context()), &wrong)
		require.Equal(t, have, wrong.Have)
		_, err := h.Join(t.Context(), someAgent())
		require.ErrorAs(t, err, &wrong)
		require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.agent`))
	}
	h.exec(t, `INSERT INTO SCHEMA.schema_version (version, name, oldest) VALUES (999, 'from the future', 999)`)
	check(999)
	_, err := h.Migrator().Up(t.Context())
	require.ErrorContains(t, err, "use a newer leasehold")
	_, err = h.Migrator().Down(t.Context())
	require.ErrorContains(t, err, "use a newer leasehold")
	h.exec(t, `DELETE FROM SCHEMA.schema_version`)
	check(0)

	none := openStore(t, postgres.Options{Schema: pgtest.Schema(t)})
	var wrong *store.SchemaError
	require.ErrorAs(t, none.Ping(t.Context()), &wrong)
	require.Zero(t, wrong.Have)
	status, err := none.Migrator().Status(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, status)
	require.Nil(t, status[0].Applied)
}

// TestPrintedSQL runs the script that people get, and compares what it makes with what Up makes.
func TestPrintedSQL(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	byHand := pgtest.Schema(t)
	s := openStore(t, postgres.Options{Schema: byHand})
	script, err := s.Migrator().SQL(0)
	require.NoError(t, err)
	pgtest.Exec(t, script)
	require.NoError(t, s.Ping(t.Context()))
	if d := cmp.Diff(catalog(t, h.schema), catalog(t, byHand)); d != "" {
		t.Fatal(d)
	}
	script, err = s.Migrator().SQL(1)
	require.NoError(t, err)
	require.NotContains(t, script, "version 1")
	_, err = s.Migrator().SQL(-1)
	require.Error(t, err)
}

// catalog describes what is in a schema, without the schema's name.
func catalog(t *testing.T, schema string) []string {
	t.Helper()
	rows, err := pgtest.Connect(t).Query(t.Context(), `
		SELECT c.relname || ' ' || c.relkind::text || ' '
			|| coalesce(string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum), '')
			|| coalesce(' ' || pg_get_indexdef(i.indexrelid), '') || coalesce(' ' || array_to_string(c.reloptions, ' '), '')
		FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		LEFT JOIN pg_index i ON i.indexrelid = c.oid
		WHERE c.relnamespace = $1::regnamespace AND c.relkind <> 't' GROUP BY c.oid, i.indexrelid
		UNION ALL SELECT p.proname || pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.pronamespace = $1::regnamespace
		ORDER BY 1`, schema)
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], schema, "SCHEMA")
	}
	return list
}

func TestSchemaNames(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"pg_mine", "information_schema", "a$b", "a{b", "a\x00b", strings.Repeat("x", 64)} {
		_, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.URL(t), Schema: bad})
		require.ErrorContains(t, err, "the schema's name", "%q", bad)
	}
	// A name that must be quoted wherever it stands, and too long for a channel to hold.
	name := pgtest.Name(`Te"st 's\ `) + " ünd so weiter, bis es lang ist"
	quoted := pgx.Identifier{name}.Sanitize()
	t.Cleanup(func() { pgtest.Exec(t, `DROP SCHEMA IF EXISTS `+quoted+` CASCADE`) })
	s := openStore(t, postgres.Options{Schema: name})
	_, err := s.Migrator().Up(t.Context())
	require.NoError(t, err)
	_, err = s.Join(t.Context(), someAgent())
	require.NoError(t, err)
	asApp := pgtest.Role(t, func(role string) string { return postgres.Grants(name, role, false) })
	_, err = pgtest.ConnectTo(t, asApp).Exec(t.Context(), `SELECT `+quoted+`.enqueue('a')`)
	require.NoError(t, err)
	_, err = s.Maintain(t.Context(), week)
	require.NoError(t, err)
}

func TestWrongURLs(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"postgres://host:port/db", "nonsense", "postgres://u:secret@h/db?sslmode=perhaps"} {
		_, err := postgres.Open(t.Context(), postgres.Options{URL: bad})
		require.ErrorContains(t, err, "open store", bad)
		require.NotContains(t, err.Error(), "secret")
	}
	// A server that is down is not: the store opens, and its calls fail.
	s := openStore(t, postgres.Options{URL: "postgres://postgres@127.0.0.1:1/none?sslmode=disable"})
	require.ErrorContains(t, s.Ping(t.Context()), "connection refused")
}
