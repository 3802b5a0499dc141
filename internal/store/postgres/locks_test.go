package postgres_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestARoleThatMayConnectHoldsNothingUp has a role without any rights hold the advisory locks that a schema's name once
// gave away, and all of what they guarded done meanwhile.
func TestARoleThatMayConnectHoldsNothingUp(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	a := joined(t, h)
	id, _ := h.batchOf(t, 3, store.BatchRequest{})
	_, err := h.Migrator().Down(t.Context())
	require.ErrorContains(t, err, "agents are present")

	guest := pgtest.ConnectTo(t, pgtest.Role(t, func(string) string { return `SELECT` }))
	key := func(of string) []byte { sum := sha256.Sum256([]byte(of + h.schema)); return sum[:] }
	_, err = guest.Exec(t.Context(), `SELECT pg_advisory_lock($1), pg_advisory_lock($1 + 1), pg_advisory_lock($2, $3)`,
		int64(binary.BigEndian.Uint64(key("leasehold schema "))), int32(binary.BigEndian.Uint32(key("leasehold batch "))), int32(id))
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.Len(t, a.claim(t, 1), 1)
	said, err := h.CancelBatch(ctx, id, "alice")
	require.NoError(t, err)
	require.Equal(t, "cancelling", said)
	h.carryOut(t)
	_, err = h.Fold(ctx, 10)
	require.NoError(t, err)
	h.exec(t, `DO $$ BEGIN EXECUTE 'DROP TABLE SCHEMA.task_archive_' || to_char((now() + '2 days') AT TIME ZONE 'UTC', 'YYYYMMDD'); END $$`)
	_, err = h.Maintain(ctx, week)
	require.NoError(t, err)
	require.NoError(t, h.Leave(ctx, a.session))
	_, err = h.Migrator().Down(ctx)
	require.NoError(t, err)
	_, err = h.Migrator().Up(ctx)
	require.NoError(t, err)
}

// TestRolesCannotLockOurTables: neither those that agents wait for, nor any other in a way that stands in an agent's way.
func TestRolesCannotLockOurTables(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	rows, err := pgtest.Connect(t).Query(t.Context(), `SELECT c.oid::regclass::text FROM pg_class AS c
		WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p', 'v')`, h.schema)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Greater(t, len(tables), 15)
	for _, url := range []string{h.asApp, h.asOperator} {
		conn := pgtest.ConnectTo(t, url)
		for _, table := range tables {
			for _, text := range []string{
				`LOCK TABLE %s IN ROW SHARE MODE NOWAIT`, `LOCK TABLE %s IN SHARE UPDATE EXCLUSIVE MODE NOWAIT`,
				`LOCK TABLE %s IN SHARE MODE NOWAIT`, `LOCK TABLE %s IN EXCLUSIVE MODE NOWAIT`, `LOCK TABLE %s NOWAIT`,
				`SELECT FROM %s FOR UPDATE NOWAIT`, `SELECT FROM %s FOR KEY SHARE NOWAIT`,
			} {
				if table == h.schema+".schedule" && strings.HasPrefix(text, "SELECT") {
					continue // it may change schedules: agents pass over those that are locked
				}
				_, err := conn.Exec(t.Context(), `BEGIN; `+fmt.Sprintf(text, table))
				require.ErrorContains(t, err, "42501", "%s of %s", text, table)
				_, err = conn.Exec(t.Context(), `ROLLBACK`)
				require.NoError(t, err)
			}
		}
	}
}

// holding has a connection of that name run a statement in a transaction until let go.
func (h *harness) holding(t *testing.T, name, text string) (who string, release func()) {
	t.Helper()
	conn := pgtest.Connect(t)
	_, err := conn.Exec(t.Context(), `SET application_name = '`+name+`'`)
	require.NoError(t, err)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(text))
	require.NoError(t, err)
	var role string
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT session_user`).Scan(&role))
	return fmt.Sprintf("pid %d (role %s, application %s)", conn.PgConn().PID(), role, name),
		func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }
}

// TestWaitsEndAndSayForWhom goes through what has to wait for a lock.
func TestWaitsEndAndSayForWhom(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.ShortenWaits(2*time.Second, 200*time.Millisecond) // that long to connect and look, on a busy machine
	a := joined(t, h)
	id, _ := h.batchOf(t, 3, store.BatchRequest{})

	who, release := h.holding(t, "stuck", fmt.Sprintf(`LOCK TABLE SCHEMA.batch_gate_%d IN ROW SHARE MODE`, id%8))
	var g errgroup.Group
	began := time.Now()
	g.Go(func() error { _, err := h.CancelBatch(t.Context(), id, "alice"); return err })
	err := g.Wait()
	require.ErrorContains(t, err, fmt.Sprintf("batch %d is not stopped: a claim of its tasks takes longer than 5 s, held by %s", id, who))
	require.Less(t, time.Since(began), 9*time.Second)
	release()
	require.Len(t, a.claim(t, 1), 1, "nothing has changed")

	who, release = h.holding(t, "open", fmt.Sprintf(`SELECT FROM SCHEMA.batch WHERE id = %d FOR NO KEY UPDATE`, id))
	_, err = h.CancelBatch(t.Context(), id, "alice")
	require.ErrorContains(t, err, "it waited too long for "+who)
	require.Len(t, a.claim(t, 1), 1, "a claim does not wait for it")
	release()

	who, release = h.holding(t, "another", `LOCK TABLE SCHEMA.schema_version IN SHARE ROW EXCLUSIVE MODE`)
	h.exec(t, `DO $$ BEGIN EXECUTE 'DROP TABLE SCHEMA.task_archive_' || to_char((now() + '2 days') AT TIME ZONE 'UTC', 'YYYYMMDD'); END $$`)
	_, err = h.Maintain(t.Context(), week)
	require.ErrorContains(t, err, "the schema is being changed by "+who)
	applied, err := h.Migrator().Up(t.Context())
	require.NoError(t, err, "the version is looked at before any lock")
	require.Empty(t, applied)
	_, err = h.Migrator().Down(t.Context())
	require.ErrorContains(t, err, "it waited too long for "+who)
	release()

	require.NoError(t, h.Leave(t.Context(), a.session))
	who, release = h.holding(t, "report", `SELECT FROM SCHEMA.batch`)
	for err = nil; err == nil; { // until a step has to lock that table
		_, err = h.Migrator().Down(t.Context())
	}
	require.ErrorContains(t, err, "it waited too long for "+who)
	release()
	_, err = h.Migrator().Up(t.Context())
	require.NoError(t, err)
}

// TestAMigrationOutlivesADeadlock has an application read the archive, and then the hot table, while a step has locked the hot
// table and goes on to the archive. The server ends the migration, whose wait closed the circle.
func TestAMigrationOutlivesADeadlock(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	app, other, watch := pgtest.Connect(t), pgtest.Connect(t), pgtest.Connect(t)
	waitsFor := func(table string, n int) {
		t.Helper()
		require.Eventually(t, func() bool {
			var found int
			require.NoError(t, watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass`,
				h.schema+"."+table).Scan(&found))
			return found == n
		}, 10*time.Second, 10*time.Millisecond)
	}
	for _, text := range []string{`SET deadlock_timeout = '1h'`, `BEGIN`, h.q(`SELECT FROM SCHEMA.task_archive`)} { // it is never the one to end
		_, err := app.Exec(t.Context(), text)
		require.NoError(t, err)
	}
	tx, err := other.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(`SELECT FROM SCHEMA.batch`))
	require.NoError(t, err)

	var g errgroup.Group
	g.Go(func() error { _, err := h.Migrator().Down(t.Context()); return err })
	waitsFor("batch", 1) // it has the hot table
	read := make(chan error, 1)
	go func() { _, err := app.Exec(t.Context(), h.q(`SELECT FROM SCHEMA.task`)); read <- err }()
	waitsFor("task", 1)
	require.NoError(t, tx.Rollback(t.Context()))

	require.NoError(t, <-read, "the migration was ended, and has let go")
	_, err = app.Exec(t.Context(), `ROLLBACK`)
	require.NoError(t, err)
	require.NoError(t, g.Wait())
	applied, err := h.Migrator().Up(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, applied)
}

// TestAgentsThatMigrateAnEmptySchemaAtOnce: there is no table to lock yet, and the schema may be there or not.
func TestAgentsThatMigrateAnEmptySchemaAtOnce(t *testing.T) {
	t.Parallel()
	for _, there := range []bool{false, true} {
		schema := pgtest.Schema(t)
		asOwner := pgtest.Role(t, func(role string) string {
			if there {
				return `CREATE SCHEMA ` + schema + ` AUTHORIZATION ` + role
			}
			return `DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO ` + role + `', current_database()); END $$`
		})
		var g errgroup.Group
		applied := make(chan int, 2)
		for range cap(applied) {
			s := openStore(t, postgres.Options{URL: asOwner, Schema: schema, Connections: 1})
			g.Go(func() error {
				did, err := s.Migrator().Up(t.Context())
				applied <- len(did)
				return err
			})
		}
		require.NoError(t, g.Wait())
		status, err := openStore(t, postgres.Options{Schema: schema}).Migrator().Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, len(status), <-applied+<-applied, "one has done it")
	}
}

// TestMissingRightsAreNamed: with the statement that gives them.
func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	asGuest := pgtest.Role(t, func(string) string { return `SELECT` })
	guest := openStore(t, postgres.Options{URL: asGuest, Schema: schema})
	var role, database string
	require.NoError(t, pgtest.ConnectTo(t, asGuest).QueryRow(t.Context(),
		`SELECT session_user, current_database()`).Scan(&role, &database))

	_, err := guest.Migrator().Up(t.Context())
	require.ErrorContains(t, err, "permission denied for database "+database)
	require.ErrorContains(t, err, fmt.Sprintf(`as the database's owner run CREATE SCHEMA "%s" AUTHORIZATION "%s";`, schema, role))
	require.ErrorContains(t, err, fmt.Sprintf(`GRANT CREATE ON DATABASE "%s" TO "%s";`, database, role))

	pgtest.Exec(t, `CREATE SCHEMA `+schema)
	_, err = guest.Migrator().Up(t.Context())
	require.ErrorContains(t, err, "permission denied for schema "+schema)
	require.ErrorContains(t, err, "the schema "+schema+" belongs to the role ")
	require.ErrorContains(t, err, "only its owner can migrate it")

	// What the first of these says is all that it takes.
	pgtest.Exec(t, `DROP SCHEMA `+schema)
	for _, statement := range []string{fmt.Sprintf(`CREATE SCHEMA "%s" AUTHORIZATION "%s";`, schema, role)} {
		pgtest.Exec(t, statement)
	}
	_, err = guest.Migrator().Up(t.Context())
	require.NoError(t, err)
	_, err = guest.Join(t.Context(), store.Agent{Name: "a", Version: "1", Types: []string{"a"}, Presence: week})
	require.NoError(t, err)
	require.NotContains(t, strings.ToLower(fmt.Sprint(err)), "permission")
}
