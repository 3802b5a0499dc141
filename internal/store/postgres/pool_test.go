package postgres_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// place is a migrated schema with an application's, an operator's and an agent's role: to make one takes most of the time of a check
// that is short, so checks hand it on to each other, emptied, unless they have changed the schema itself.
type place struct {
	schema             string
	roles              []string
	asApp, asOperator  string // URLs
	asAgent            string // another
	agents             string // grants for the role of that
	partitions, tables string // when it was made
	connections        connections
	first              *postgres.Store // that was opened
}

// places are those that no test uses at the moment.
var places struct {
	sync.Mutex
	free []*place
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(thenDropped{m}) }

// thenDropped runs tests and drops the pooled schemas, before leaks are looked for: their connections may have goroutines.
type thenDropped struct{ m *testing.M }

func (d thenDropped) Run() (code int) {
	code = d.m.Run()
	if err := dropPlaces(); err != nil {
		fmt.Fprintln(os.Stderr, "schemas are left behind:", err)
		code = max(code, 1)
	}
	return code
}

// Whose rights a pooled harness's store has.
const (
	asOwner = false
	asAgent = true
)

// newHarness is newFreshHarness on a schema that other checks have used before, or will.
func newHarness(t testing.TB) *harness { return newPooledHarness(t, asOwner) }

// newPooledHarness is newHarness, or one whose store connects as a role that owns nothing.
func newPooledHarness(t testing.TB, agent bool) *harness {
	t.Helper()
	p := takePlace(t)
	t.Cleanup(func() { p.release(t) }) // after all that is opened now is closed
	conn, end := p.connections.connection(t, pgtest.URL(t))
	defer end()
	h := &harness{
		t: t, schema: p.schema, asApp: p.asApp, asOperator: p.asOperator, opened: new([]*postgres.Store), ahead: pgtest.AheadOn(t, conn),
		first: p.first, connections: &p.connections,
	}
	if agent {
		h.asAgent, h.agents = p.asAgent, p.agents
	}
	h.open()
	p.first = h.first
	return h
}

func takePlace(t testing.TB) *place {
	t.Helper()
	places.Lock()
	if n := len(places.free); n > 0 {
		p := places.free[n-1]
		places.free = places.free[:n-1]
		places.Unlock()
		return p
	}
	places.Unlock()
	p := &place{schema: pgtest.Name("pooled")}
	s, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.URL(t), Schema: p.schema})
	require.NoError(t, err)
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	_, err = s.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	s.Close()
	role := func(grants func(role string) string) (url string) {
		name, url := pgtest.NewRole(t, grants)
		p.roles = append(p.roles, name)
		return url
	}
	p.asApp = role(func(name string) string { return postgres.Grants(p.schema, name, false) })
	p.asOperator = role(func(name string) string { return postgres.Grants(p.schema, name, true) })
	p.asAgent = role(func(name string) string {
		p.agents = postgres.AgentGrants(p.schema, name)
		return p.agents
	})
	p.tables, p.partitions = p.looks(t)
	return p
}

// looks describes the schema's tables and settings, and its partitions.
func (p *place) looks(t testing.TB) (tables, partitions string) {
	t.Helper()
	conn, end := p.connections.connection(t, pgtest.URL(t))
	defer end()
	rows, err := conn.Query(context.Background(),
		`SELECT relname FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'p') ORDER BY relname`, p.schema)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	day := func(name string) bool { return strings.HasPrefix(name, "task_archive_") }
	rows, err = conn.Query(context.Background(), strings.ReplaceAll(lookSQL, "SCHEMA", p.schema))
	require.NoError(t, err)
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return strings.Join(append(slices.DeleteFunc(slices.Clone(names), day), others...), " "),
		strings.Join(slices.DeleteFunc(names, func(name string) bool { return !day(name) }), " ")
}

// lookSQL describes what a test can change of a schema besides rows: settings, functions, triggers, constraints, rights, options and statistics.
const lookSQL = `
SELECT s::text FROM SCHEMA.setting AS s
UNION ALL
SELECT md5(string_agg(concat_ws(' ', p.proname, p.prosrc, p.proconfig, p.proacl, p.prosecdef, p.proowner), ' ' ORDER BY p.oid)) FROM pg_proc AS p
WHERE p.pronamespace = 'SCHEMA'::regnamespace
UNION ALL
SELECT md5(string_agg(concat_ws(' ', g.tgname, g.tgenabled, g.tgrelid), ' ' ORDER BY g.oid)) FROM pg_trigger AS g JOIN pg_class AS c ON c.oid = g.tgrelid
WHERE c.relnamespace = 'SCHEMA'::regnamespace AND NOT c.relispartition
UNION ALL
SELECT md5(string_agg(concat_ws(' ', n.conname, n.conrelid), ' ' ORDER BY n.oid)) FROM pg_constraint AS n JOIN pg_class AS c ON c.oid = n.conrelid
WHERE c.relnamespace = 'SCHEMA'::regnamespace AND NOT c.relispartition
UNION ALL
SELECT md5(string_agg(concat_ws(' ', c.relname, c.relkind, c.relacl, c.reloptions, c.relrowsecurity, c.relowner, c.reltuples < 0), ' ' ORDER BY c.oid))
FROM pg_class AS c WHERE c.relnamespace = 'SCHEMA'::regnamespace AND NOT c.relispartition
UNION ALL
SELECT md5(string_agg(concat_ws(' ', a.attrelid, a.attname, a.atttypid, a.attacl, a.attstattarget, a.attisdropped), ' ' ORDER BY a.attrelid, a.attnum))
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
WHERE c.relnamespace = 'SCHEMA'::regnamespace AND NOT c.relispartition AND a.attnum > 0`

// release empties the schema for the next check, or drops it: after a check that failed, or that has changed more than rows.
func (p *place) release(t testing.TB) {
	t.Helper()
	tables, partitions := p.looks(t)
	if t.Failed() || tables != p.tables || partitions != p.partitions {
		p.connections.close()
		pgtest.Exec(t, p.drop())
		return
	}
	conn, end := p.connections.connection(t, pgtest.URL(t))
	defer end()
	_, err := conn.Exec(context.Background(), strings.ReplaceAll(emptySQL, "SCHEMA", p.schema))
	require.NoError(t, err)
	places.Lock()
	defer places.Unlock()
	places.free = append(places.free, p)
}

// emptySQL makes a schema what it is once migrated. The key for ping URLs stays.
const emptySQL = `
DO $$
DECLARE
    name text;
BEGIN
    DELETE FROM SCHEMA.schedule_declarer; -- else what HCL declares cannot be deleted
    FOR name IN SELECT c.oid::regclass::text FROM pg_class AS c
        WHERE c.relnamespace = 'SCHEMA'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND c.relname NOT IN ('secret', 'schema_version', 'setting', 'schedule_zone')
    LOOP
        EXECUTE 'DELETE FROM ' || name;
    END LOOP;
    FOR name IN SELECT c.oid::regclass::text FROM pg_class AS c
        WHERE c.relnamespace = 'SCHEMA'::regnamespace AND c.relkind = 'S'
    LOOP
        PERFORM setval(name, 1, false);
    END LOOP;
END $$`

func (p *place) drop() string {
	return `DROP SCHEMA IF EXISTS ` + p.schema + ` CASCADE; DROP OWNED BY ` + strings.Join(p.roles, ", ") +
		`; DROP ROLE ` + strings.Join(p.roles, ", ")
}

func dropPlaces() error {
	ctx := context.Background()
	if len(places.free) == 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, os.Getenv(pgtest.Variable))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // it is closed in any case
	for _, p := range places.free {
		p.connections.close()
		if _, err := conn.Exec(ctx, p.drop()); err != nil {
			return err
		}
	}
	return nil
}
