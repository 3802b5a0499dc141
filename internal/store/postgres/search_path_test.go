package postgres_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestAnApplicationCannotBecomeTheOwner does what an application's role with exactly the printed grants once could: a type
// of its own in pg_temp, with the name of one that a function of ours uses, whose check runs with the owner's rights.
func TestAnApplicationCannotBecomeTheOwner(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	app := pgtest.ConnectTo(t, h.asApp)
	for _, text := range []string{
		`CREATE FUNCTION pg_temp.grab() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
			IF current_user <> session_user THEN EXECUTE format('ALTER ROLE %I SUPERUSER', session_user); END IF;
			RETURN true;
		END $$`,
		`CREATE DOMAIN pg_temp.record AS text CHECK (pg_temp.grab())`,
		`INSERT INTO SCHEMA.task (type) VALUES ('a')`,
		`WITH b AS (INSERT INTO SCHEMA.batch DEFAULT VALUES RETURNING id) SELECT id FROM b`,
	} {
		_, err := app.Exec(t.Context(), h.q(text))
		require.NoError(t, err, text)
	}
	var super bool
	require.NoError(t, app.QueryRow(t.Context(),
		`SELECT rolsuper FROM pg_roles WHERE rolname = session_user`).Scan(&super))
	require.False(t, super, "an application's role has become a superuser")
}

// fullyQualified are the functions that go without a search_path of their own, because to set one costs more than all else
// that they do, and the variables that may make them so. Each name in them stands with its schema: what is not on this list
// must pin its path, and what is on it is tried against impostors by TestImpostorsAreNeverCalled.
var fullyQualified = map[string]bool{"task_inserted": true, "reserve_start": true, "compact_length": true, "policy_interval": true, "task_fits": true}

// TestFunctionsOfApplicationsCompileNothing wants each function that turns sequential scans off to turn the compiler of plans off, too.
// A small table without a fitting index is then read at a cost of 10^10, for which the server compiles the plan: for 300 ms in each
// new connection of an application. Agents turn it off for their connections.
func TestFunctionsOfApplicationsCompileNothing(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	rows, err := pgtest.Connect(t).Query(t.Context(), `
		SELECT p.proname, 'jit=off' = ANY (p.proconfig)
		FROM pg_proc AS p WHERE p.pronamespace = $1::regnamespace AND 'enable_seqscan=off' = ANY (p.proconfig)`, h.schema)
	require.NoError(t, err)
	n := 0
	var name string
	var off bool
	_, err = pgx.ForEachRow(rows, []any{&name, &off}, func() error {
		n++
		if !off && name != "reserve_start" { // which only agents call, once for each batch in a claim
			t.Errorf("%s: SET jit = off", name)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, n, 30)
}

// TestEveryFunctionPinsItsSearchPath goes through all that the schema has, also functions with the caller's rights: agents,
// and functions with the owner's, call those.
func TestEveryFunctionPinsItsSearchPath(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	rows, err := pgtest.Connect(t).Query(t.Context(), `
		SELECT p.proname, p.prosecdef, coalesce(array_to_string(p.proconfig, E'\n'), ''),
			p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) AS a WHERE a.grantee = 0)
		FROM pg_proc AS p WHERE p.pronamespace = $1::regnamespace`, h.schema)
	require.NoError(t, err)
	n := 0
	var name, settings string
	var definer, public bool
	_, err = pgx.ForEachRow(rows, []any{&name, &definer, &settings, &public}, func() error {
		n++
		pinned := strings.Contains("\n"+settings+"\n", "\nsearch_path=pg_catalog, pg_temp\n")
		if pinned == fullyQualified[name] {
			t.Errorf("%s (SECURITY DEFINER: %t): pins its search_path, pg_temp last: %t; on the list of those that need not: %t",
				name, definer, pinned, fullyQualified[name])
		}
		if public {
			t.Errorf("%s: PUBLIC may execute it", name)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, n, 30)
	// Views, defaults, checks, indexes and triggers name what they use by number; none of it belongs to another schema.
	h.ownsAll(t, h.schema)
}

// ownsAll asserts that nothing in a schema depends on anything outside of it and of pg_catalog.
func (h *harness) ownsAll(t *testing.T, schema string) {
	t.Helper()
	rows, err := pgtest.Connect(t).Query(t.Context(), `
		WITH RECURSIVE ours (classid, objid) AS (
			SELECT d.classid, d.objid FROM pg_depend AS d
			WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = $1::regnamespace
			UNION
			SELECT d.classid, d.objid FROM pg_depend AS d JOIN ours AS o ON d.refclassid = o.classid AND d.refobjid = o.objid
			WHERE d.deptype IN ('a', 'i', 'n')
		)
		SELECT DISTINCT pg_describe_object(d.refclassid, d.refobjid, 0)
		FROM ours AS o JOIN pg_depend AS d ON d.classid = o.classid AND d.objid = o.objid
		CROSS JOIN LATERAL pg_identify_object(d.refclassid, d.refobjid, 0) AS i
		WHERE i.schema IS NOT NULL AND i.schema NOT IN ($1::text, 'pg_catalog', 'pg_toast')`, schema)
	require.NoError(t, err)
	foreign, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Empty(t, foreign)
}

// impostors has a role put, into pg_temp and into a schema of its own, a type, function, operator and table for whatever
// name occurs in one of our functions. None of them does anything but fail.
const impostors = `
CREATE FUNCTION EVIL.caught() RETURNS boolean LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'caught as %', current_user; END $$;
CREATE TYPE EVIL.wicked AS ENUM ('a');
CREATE FUNCTION EVIL.harmless(EVIL.wicked) RETURNS text LANGUAGE plpgsql AS
	$$ BEGIN IF current_user OPERATOR(pg_catalog.<>) session_user THEN PERFORM EVIL.caught(); END IF; RETURN 'a'; END $$;
CREATE CAST (EVIL.wicked AS text) WITH FUNCTION EVIL.harmless(EVIL.wicked) AS IMPLICIT;
DO $do$
DECLARE
	sources text := (SELECT string_agg(prosrc, ' ') FROM pg_proc WHERE pronamespace = 'SCHEMA'::regnamespace);
	place text;
	one record;
	planted integer := 0;
BEGIN
	FOR one IN
		SELECT p.proname AS name, p.oid FROM pg_proc AS p
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND sources ~ ('\m' || p.proname || '\(')
	LOOP
		BEGIN
			EXECUTE format('CREATE FUNCTION EVIL.%I(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN PERFORM EVIL.caught(); END''',
				one.name, pg_get_function_identity_arguments(one.oid), pg_get_function_result(one.oid));
			planted := planted + 1;
		EXCEPTION WHEN OTHERS THEN NULL; -- some take what no function of plpgsql can
		END;
	END LOOP;
	FOR one IN
		SELECT o.oprname AS name, o.oprleft::regtype AS l, o.oprright::regtype AS r, o.oprresult::regtype AS result
		FROM pg_operator AS o
		WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprleft <> 0 AND position(o.oprname IN sources) > 0
		  AND o.oprleft::regtype::text = ANY (ARRAY['bigint', 'integer', 'text', 'jsonb', 'boolean', 'date', 'interval',
		      'timestamp with time zone', 'double precision', 'numeric', 'xid8', 'name', 'oid', 'anyarray'])
	LOOP
		BEGIN
			EXECUTE format('CREATE FUNCTION EVIL.op(%1$s, %2$s) RETURNS %3$s LANGUAGE plpgsql AS ''BEGIN PERFORM EVIL.caught(); END''',
				one.l, one.r, one.result);
		EXCEPTION WHEN OTHERS THEN NULL;
		END;
		BEGIN
			EXECUTE format('CREATE OPERATOR EVIL.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = EVIL.op)', one.name, one.l, one.r);
			planted := planted + 1;
		EXCEPTION WHEN OTHERS THEN NULL;
		END;
	END LOOP;
	FOREACH place IN ARRAY ARRAY['pg_temp', 'EVIL'] LOOP
		FOR one IN
			SELECT c.relname AS name FROM pg_catalog.pg_class AS c WHERE c.relnamespace = 'SCHEMA'::regnamespace AND c.relkind IN ('r', 'p', 'v')
			UNION SELECT * FROM unnest(ARRAY['inserted', 'pg_namespace', 'pg_class', 'pg_inherits'])
		LOOP
			EXECUTE format('CREATE TABLE %s.%I (id bigint, batch_id bigint, fence bigint)', place, one.name);
		END LOOP;
	END LOOP;
	FOREACH place IN ARRAY ARRAY['EVIL', 'pg_temp'] LOOP -- in pg_temp last, where this script finds them, too
		FOR one IN
			SELECT t.typname AS name, CASE t.typtype WHEN 'p' THEN 'text' ELSE t.typname END AS base FROM pg_type AS t
			WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typrelid = 0 AND t.typelem = 0
			  AND (t.typtype <> 'p' OR t.typname IN ('record', 'trigger', 'void'))
		LOOP
			BEGIN
				EXECUTE format('CREATE DOMAIN %s.%I AS pg_catalog.%I CHECK (EVIL.caught())', place, one.name, one.base);
				planted := planted + 1;
			EXCEPTION WHEN OTHERS THEN NULL; -- not every type can be a domain's
			END;
		END LOOP;
	END LOOP;
	IF planted < 200 THEN
		RAISE EXCEPTION 'no more than % impostors', planted;
	END IF;
END
$do$;
CREATE AGGREGATE EVIL.count(*) (SFUNC = pg_catalog.int8inc, STYPE = bigint, INITCOND = '41');
CREATE AGGREGATE EVIL.sum(bigint) (SFUNC = pg_catalog.int8pl, STYPE = bigint, INITCOND = '41');`

// plant lets the role of a connection plant impostors and has the connection find them first.
func (h *harness) plant(t *testing.T, url string) (evil string, conn *pgx.Conn) {
	t.Helper()
	evil = pgtest.Schema(t)
	conn = pgtest.ConnectTo(t, url)
	var role string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT session_user`).Scan(&role))
	pgtest.Exec(t, `CREATE SCHEMA `+evil+` AUTHORIZATION `+role+`; GRANT USAGE ON SCHEMA `+evil+` TO PUBLIC`)
	_, err := conn.Exec(t.Context(), strings.ReplaceAll(h.q(impostors), "EVIL", evil))
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `SET search_path = pg_temp, `+evil+`, pg_catalog`)
	require.NoError(t, err)
	return evil, conn
}

// TestImpostorsAreNeverCalled has an operator's role, which may call more than an application's, run all that it may.
func TestImpostorsAreNeverCalled(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	a := joined(t, h)
	require.NoError(t, a.Idle(t.Context(), a.session, true))
	rows := a.take(t, 4)
	failed, _ := h.batchOf(t, 2, store.BatchRequest{Open: true})
	evil, conn := h.plant(t, h.asOperator)
	for _, text := range []string{
		`INSERT INTO SCHEMA.task (type) VALUES ('a')`,
		`INSERT INTO SCHEMA.task (type, labels, run_at) VALUES ('b', '{"a": "b"}', 'now')`,
		`INSERT INTO SCHEMA.task (type, lock, sequence, tenant, after_if, region, max_attempts, key, traceparent, created_by)
			VALUES ('b', 'l', 's', 't', 'any', 'r', 3, 'key', 'x', 'y')`,
		`INSERT INTO SCHEMA.task (type) VALUES ('a'::EVIL.wicked)`,
		`BEGIN`,
		`INSERT INTO SCHEMA.batch (labels) VALUES ('{"a": "b"}')`,
		`INSERT INTO SCHEMA.task (type, batch_id) SELECT 'c', b.id FROM SCHEMA.batch AS b ORDER BY b.id DESC LIMIT 1`,
		`COMMIT`,
		`SELECT SCHEMA.enqueue('d', key => 'k')`,
		`SELECT SCHEMA.enqueue('d', key => 'k', payload => '{"a": 1}', labels => '{"a": "b"}')`,
		`SELECT SCHEMA.enqueue('a'::EVIL.wicked)`,
		fmt.Sprintf(`SELECT SCHEMA.hold(%d, 1)`, rows[0].ID),
		fmt.Sprintf(`SELECT SCHEMA.ping(%d, 1, '0.4', '{"page": 1}', 'so far', 3)`, rows[0].ID),
		fmt.Sprintf(`SELECT SCHEMA.ping(%d, 1, '{"done": 1, "total": 2}')`, rows[0].ID),
		fmt.Sprintf(`SELECT SCHEMA.complete(%d, 1, '{"ok": true}')`, rows[0].ID),
		fmt.Sprintf(`SELECT SCHEMA.cancel(%d)`, rows[1].ID),
		fmt.Sprintf(`SELECT SCHEMA.cancel(%d, 'me')`, failed),
		`SELECT SCHEMA.cancel(SCHEMA.enqueue('e', key => 'e'))`,
		`SELECT SCHEMA.retry(t.id) FROM SCHEMA.tasks AS t WHERE t.key OPERATOR(pg_catalog.=) 'e'`,
		fmt.Sprintf(`SELECT SCHEMA.seal_batch(%d)`, failed),
		fmt.Sprintf(`SELECT SCHEMA.cancel_batch(%d)`, failed),
		fmt.Sprintf(`SELECT SCHEMA.rollback_batch(%d)`, failed),
		`SELECT SCHEMA.acquire('reindex', 'me', '30s')`,
		`SELECT SCHEMA.acquire('reindex', 'me', '40s')`,
		`SELECT SCHEMA.acquire('reindex', 'you', '30s')`,
		`SELECT SCHEMA.acquire('a'::EVIL.wicked, 'a'::EVIL.wicked, '30s')`,
		`SELECT SCHEMA.renew_lease('reindex', 1)`,
		`SELECT SCHEMA.hold_lease('reindex', 1)`,
		`SELECT SCHEMA.release_lease('reindex', 1)`,
		`SELECT name, holder, fence FROM SCHEMA.leases`,
		`SELECT SCHEMA.backlog('a')`,
		`SELECT id, state FROM SCHEMA.tasks`,
		`SELECT id, state, progress FROM SCHEMA.batches`,
	} {
		_, err := conn.Exec(t.Context(), strings.ReplaceAll(h.q(text), "EVIL", evil))
		require.NoError(t, err, text)
	}
	for _, text := range []string{ // refused, by a function of ours and not by an impostor
		fmt.Sprintf(`SELECT SCHEMA.rollback(%d)`, rows[2].ID), `SELECT SCHEMA.retry_batch(4711)`,
		fmt.Sprintf(`SELECT SCHEMA.retry_batch(%d)`, failed),
		`SELECT SCHEMA.acquire('', 'me', '30s')`, `SELECT SCHEMA.renew_lease('reindex', 1)`,
		`SELECT SCHEMA.release_lease('a', 99)`, `SELECT SCHEMA.hold_lease('a', 99)`,
	} {
		_, err := conn.Exec(t.Context(), h.q(text))
		require.ErrorContains(t, err, "SQLSTATE", text)
		require.NotContains(t, err.Error(), "caught", text)
	}
	// What has no path of its own, called by one who may.
	owner := pgtest.Connect(t)
	_, err := owner.Exec(t.Context(), `SET search_path = `+evil+`, pg_catalog`)
	require.NoError(t, err)
	for _, text := range []string{
		`SELECT SCHEMA.compact_length('{"a": 1, "b": 2}')`, `SELECT SCHEMA.policy_interval('{"a": 1000}', 'a')`,
		`SELECT SCHEMA.reserve_start(4711, 1)`, `INSERT INTO SCHEMA.task (type) VALUES ('a')`,
	} {
		_, err := owner.Exec(t.Context(), h.q(text))
		require.NoError(t, err, text)
	}
}

// TestAgentsKeepToTheirSearchPath: neither the URL nor a setting of the role's leads an agent to names of others.
func TestAgentsKeepToTheirSearchPath(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schema(t)
	for _, add := range []string{"search_path=public", "options=-csearch_path%3Dpublic"} {
		s := openStore(t, postgres.Options{URL: pgtest.URL(t) + "&" + add, Schema: schema})
		path, err := s.Show(t.Context(), "search_path")
		require.NoError(t, err)
		require.Equal(t, "pg_catalog, pg_temp", path, add)
	}
}

// TestThePrintedSQLIsNotMisled: a script that is run by hand finds whatever the path of that session has first.
func TestThePrintedSQLIsNotMisled(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	byHand, evil := pgtest.Schema(t), pgtest.Schema(t)
	conn := pgtest.Connect(t)
	_, err := conn.Exec(t.Context(), strings.ReplaceAll(`CREATE SCHEMA EVIL;
		CREATE FUNCTION EVIL.over(double precision, bigint) RETURNS double precision LANGUAGE plpgsql
			AS 'BEGIN RAISE ''caught''; END';
		CREATE OPERATOR EVIL./ (LEFTARG = double precision, RIGHTARG = bigint, FUNCTION = EVIL.over);
		CREATE DOMAIN EVIL.timestamptz AS pg_catalog.timestamptz; CREATE DOMAIN EVIL.text AS pg_catalog.text;
		SET search_path = EVIL, pg_catalog`, "EVIL", evil))
	require.NoError(t, err)
	script, err := openStore(t, postgres.Options{Schema: byHand}).Migrator().SQL(0)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), script)
	require.NoError(t, err)
	h.ownsAll(t, byHand)
}
