package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestAnAgentsRole does what the conformance suite, which runs with the same grants, does not: partitions, old days, and what
// an agent must not be able to do.
func TestAnAgentsRole(t *testing.T) {
	t.Parallel()
	h := newFreshAgentHarness(t)
	other := pgtest.Schema(t)
	pgtest.Exec(t, `CREATE SCHEMA `+other+`; CREATE TABLE `+other+`.secrets (id int)`)
	a := joined(t, h)
	h.exec(t, `DO $$ BEGIN EXECUTE 'DROP TABLE SCHEMA.task_archive_' || to_char((now() + '2 days') AT TIME ZONE 'UTC', 'YYYYMMDD'); END $$`)
	rows := a.take(t, 3)
	id, _ := h.batchOf(t, 2, store.BatchRequest{})
	require.Equal(t, all(3, store.Applied), a.settle(t, done(rows[0]), done(rows[1]), done(rows[2])))
	_, err := h.Maintain(t.Context(), week)
	require.NoError(t, err)
	require.EqualValues(t, 5, h.number(t, `SELECT count(*) FROM pg_inherits WHERE inhparent = 'SCHEMA.task_archive'::regclass`))
	h.Advance(t, 3*24*time.Hour)
	n, err := h.Maintain(t.Context(), 24*time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	require.EqualValues(t, 5, h.number(t, `SELECT count(*) FROM pg_class
		WHERE relnamespace = 'SCHEMA'::regnamespace AND relname ~ '^task_archive_[0-9]+$' AND relkind = 'r'`))
	_, err = h.CancelBatch(t.Context(), id, "alice")
	require.NoError(t, err)

	conn := pgtest.ConnectTo(t, h.asAgent)
	for _, mayNot := range []string{
		`CREATE OR REPLACE FUNCTION SCHEMA.task_inserted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
		`ALTER FUNCTION SCHEMA.task_inserted() SET search_path = public`,
		`ALTER FUNCTION SCHEMA.cancel(bigint, text) SECURITY INVOKER`,
		`DROP FUNCTION SCHEMA.sum_batches(bigint)`,
		`ALTER TABLE SCHEMA.task ADD COLUMN mine int`,
		`ALTER TABLE SCHEMA.task DISABLE TRIGGER ALL`,
		`CREATE TRIGGER mine AFTER INSERT ON SCHEMA.task FOR EACH STATEMENT EXECUTE FUNCTION SCHEMA.task_inserted()`,
		`CREATE TEMPORARY TABLE bait (batch_id bigint, fence bigint); CREATE TRIGGER mine AFTER INSERT ON bait
			REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION SCHEMA.task_inserted()`,
		`CREATE TABLE SCHEMA.mine (id int)`,
		`TRUNCATE SCHEMA.task`,
		`DROP TABLE SCHEMA.task_archive`,
		`UPDATE SCHEMA.secret SET key = ''`,
		`DELETE FROM SCHEMA.schema_version`,
		`SELECT * FROM ` + other + `.secrets`,
	} {
		_, err := conn.Exec(t.Context(), h.q(mayNot))
		require.ErrorContains(t, err, "42501", mayNot)
	}
	for mayNot, reason := range map[string]string{
		`SELECT SCHEMA.detach_partition((now() AT TIME ZONE 'UTC')::date)`:                      "is not over",
		`SELECT SCHEMA.detach_partition(NULL)`:                                                  "is not over",
		`SELECT SCHEMA.drop_partition((now() AT TIME ZONE 'UTC')::date)`:                        "still part of the archive",
		`SELECT SCHEMA.ensure_partition(now() + '1 year')`:                                      "days around today",
		`SELECT SCHEMA.ensure_partition('infinity')`:                                            "days around today",
		`SELECT SCHEMA.detach_partition((now() AT TIME ZONE 'UTC')::date + 1)`:                  "is not over",
		`INSERT INTO SCHEMA.schema_version (version, name, oldest) VALUES (999, 'takeover', 1)`: "42501",
	} {
		_, err := conn.Exec(t.Context(), h.q(mayNot))
		require.ErrorContains(t, err, reason, mayNot)
	}
	require.Zero(t, h.number(t, `SELECT count(*) FROM pg_proc AS p CROSS JOIN pg_roles AS r
		WHERE p.pronamespace = 'SCHEMA'::regnamespace AND p.prorettype = 'trigger'::regtype AND NOT r.rolsuper
		  AND p.proacl IS NOT NULL AND has_function_privilege(r.oid, p.oid, 'EXECUTE')`), "trigger functions are granted to no role")
	require.NoError(t, h.Leave(t.Context(), a.session))
	_, err = h.Migrator().Down(t.Context())
	require.ErrorContains(t, err, "and only its owner can migrate it")
	applied, err := h.Migrator().Up(t.Context())
	require.NoError(t, err, "run --migrate, where there is nothing to do")
	require.Empty(t, applied)
}
