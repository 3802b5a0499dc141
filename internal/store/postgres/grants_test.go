package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// TestAnApplicationReadsWhyATaskWasRolledBack reads it from the view: the role may not read the history.
func TestAnApplicationReadsWhyATaskWasRolledBack(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	a := joined(t, h)
	row := a.take(t, 1)[0]
	settle := func(row *task.Task, phase task.Phase, next task.State, outcome task.Outcome) {
		settled, err := a.Settle(t.Context(), a.session, []store.Settlement{{
			ID: row.ID, Fence: row.Fence, RanFence: row.Fence, Phase: phase, Attempt: 1, Started: time.Second,
			Next: task.Transition{State: next, EverStarted: true}, Outcome: outcome,
		}})
		require.NoError(t, err)
		require.Len(t, settled, 1)
	}
	settle(&row, task.Run, task.StateRollbackPending, task.Outcome{Verdict: task.Failed, Error: "answered 500"})
	a.claims++
	want := wantOf(1)
	want.Phase = task.Rollback
	rows, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{want}})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	settle(&rows[0], task.Rollback, task.StateRolledBack, task.Outcome{Verdict: task.Succeeded})
	app := pgtest.ConnectTo(t, h.asApp)
	var state, cause, reason string
	require.NoError(t, app.QueryRow(t.Context(), h.q(`SELECT state, cause, error FROM SCHEMA.tasks WHERE id = $1`), int64(row.ID)).
		Scan(&state, &cause, &reason))
	require.Equal(t, []string{"rolled_back", "failed", "answered 500"}, []string{state, cause, reason})
}

// TestAnApplicationsRights tries what an application may do, and what it may not.
func TestAnApplicationsRights(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	joined(t, h)
	app := pgtest.ConnectTo(t, h.asApp)
	for _, may := range []string{
		`INSERT INTO SCHEMA.task (type, payload) VALUES ('invoice.send', '{"invoice": 7}') RETURNING id`,
		`INSERT INTO SCHEMA.task (type, payload, run_at, priority, region, key, max_attempts, labels, traceparent, created_by)
			VALUES ('a', '{}', now(), -10, 'sg', 'k', 1000, '{"tenant": "acme"}', '00-x', 'app') RETURNING id`,
		`INSERT INTO SCHEMA.task (type, key) VALUES ('a', 'k') ON CONFLICT DO NOTHING`,
		`SELECT id, state, result, error, output FROM SCHEMA.tasks WHERE id = 1`,
		`SELECT id FROM SCHEMA.task`,
		`SELECT SCHEMA.enqueue('invoice.send', '{"invoice": 7}', key => 'invoice-7', run_at => now() + '1 hour')`,
		`SELECT SCHEMA.enqueue('a', payload => NULL, key => 'k', priority => 3, region => 'sg', max_attempts => 2,
			labels => '{"a": "b"}', traceparent => '00-x', created_by => 'app')`,
		`SELECT progress, message, checkpoint, cancel_requested_at, cancel_requested_by, detached FROM SCHEMA.tasks WHERE id = 1`,
		`SELECT batch_id, rollback_payload, cause, round FROM SCHEMA.tasks WHERE id = 1`,
		`INSERT INTO SCHEMA.batch (name, on_failure, finish_type, finish_payload, labels, created_by, sealed)
			VALUES ('move', 'rollback', 'moved', '{"to": "az2"}', '{"tenant": "acme"}', 'app', false) RETURNING id`,
		`INSERT INTO SCHEMA.task (type, batch_id, rollback_payload) VALUES ('a', 1, '{"to": "az1"}') RETURNING id`,
		`INSERT INTO SCHEMA.task (type, lock) VALUES ('a', 'account-7')`,
		`INSERT INTO SCHEMA.task (type, tenant) VALUES ('a', 'acme')`,
		`SELECT SCHEMA.enqueue('a', tenant => 'acme')`,
		`SELECT tenant FROM SCHEMA.tasks WHERE id = 1`,
		`SELECT SCHEMA.enqueue('a', lock => 'account-7')`,
		`SELECT lock, held FROM SCHEMA.tasks WHERE id = 1`,
		`INSERT INTO SCHEMA.task (type, after, after_if) VALUES ('a', '{1}', 'any')`,
		`SELECT SCHEMA.enqueue('a', after => '{1}', after_if => 'succeeded')`,
		`SELECT after, after_if, cancelled_for FROM SCHEMA.tasks WHERE id = 1`,
		`SELECT SCHEMA.enqueue('a', batch_id => 1, rollback_payload => '{"to": "az1"}')`,
		`SELECT id, name, state, total, progress FROM SCHEMA.batches WHERE id = 1`,
		`SELECT SCHEMA.seal_batch(1)`,
		`SELECT SCHEMA.acquire('reindex', 'app', '30s')`,
		`SELECT SCHEMA.acquire('reindex', 'app', interval '1 minute')`,
		`SELECT SCHEMA.renew_lease('reindex', 1)`,
		`SELECT SCHEMA.hold_lease('reindex', 1)`,
		`SELECT name, holder, fence, acquired_at, expires_at FROM SCHEMA.leases`,
		`SELECT SCHEMA.release_lease('reindex', 1)`,
		`INSERT INTO SCHEMA.schedule (name, task, cron, timezone, payload) VALUES ('acme', 'report', '0 3 * * *', 'Asia/Singapore', '{}')`,
		`INSERT INTO SCHEMA.schedule (name, task, every, after, jitter, from_at, until_at, missed, catch_up, overlap)
			VALUES ('other', 'report', '1h', NULL, '1m', '2026-12-01T00:00:00Z', '2027-12-01T00:00:00Z', 'all', '1d', 'queue')`,
		`SELECT name, next_at, last_slot, last_task, missed_slots, invalid FROM SCHEMA.schedules WHERE name = 'acme'`,
		`SELECT name, task, cron FROM SCHEMA.schedule WHERE name = 'acme'`,
		`UPDATE SCHEMA.schedule SET task = 'a', cron = NULL, every = '2h', after = NULL, timezone = NULL, payload = '{"n": 1}', jitter = '1m',
			from_at = NULL, until_at = NULL, missed = 'none', catch_up = '1d', overlap = 'queue' WHERE name = 'acme'`,
		`INSERT INTO SCHEMA.schedule (name, task, cron) VALUES ('acme', 'report', '0 4 * * *')
			ON CONFLICT (name) DO UPDATE SET task = excluded.task, cron = excluded.cron, every = excluded.every, jitter = excluded.jitter`,
		`SELECT SCHEMA.remove_schedule('other')`,
		`SELECT SCHEMA.backlog('a')`,
		`SELECT type, name FROM SCHEMA.redactions`,
		`SELECT minutes, at, type, succeeded, latency FROM SCHEMA.activities`,
	} {
		_, err := app.Exec(t.Context(), h.q(may))
		require.NoError(t, err, may)
	}
	require.EqualValues(t, 11, h.number(t, `SELECT count(*) FROM SCHEMA.task`), "one live row for each key")
	for _, mayNot := range []string{
		`INSERT INTO SCHEMA.task (id, type) OVERRIDING SYSTEM VALUE VALUES (7, 'a')`,
		`INSERT INTO SCHEMA.task (type, state) VALUES ('a', 'running')`,
		`INSERT INTO SCHEMA.task (type, fence) VALUES ('a', 7)`,
		`INSERT INTO SCHEMA.task (type, created_at) VALUES ('a', now())`,
		`SELECT payload FROM SCHEMA.task`,
		`SELECT id FROM SCHEMA.task FOR KEY SHARE`,
		`UPDATE SCHEMA.task SET priority = 1`,
		`DELETE FROM SCHEMA.task`,
		`TRUNCATE SCHEMA.task`,
		`SELECT * FROM SCHEMA.task_archive`,
		`SELECT * FROM SCHEMA.attempt`,
		`SELECT * FROM SCHEMA.agent`,
		`UPDATE SCHEMA.agent SET idle = true`,
		`SELECT * FROM SCHEMA.policy`,
		`SELECT * FROM SCHEMA.redaction`,
		`SELECT * FROM SCHEMA.activity`,
		`INSERT INTO SCHEMA.activity (step, at, type, session, started, ended) VALUES (1, now(), 'a', 1, 0, 0)`,
		`UPDATE SCHEMA.activity SET started = 1`,
		`DELETE FROM SCHEMA.activities`,
		`INSERT INTO SCHEMA.redaction (type, names) VALUES ('a', '[]')`,
		`SELECT * FROM SCHEMA.schema_version`,
		`SELECT * FROM SCHEMA.secret`,
		`SELECT SCHEMA.take_pings('{1}', '{1}', '{}', '{}', '{}', '{}')`,
		`SELECT SCHEMA.take_complete(1, 1, true, NULL)`,
		`SELECT SCHEMA.archive(t, now()) FROM SCHEMA.task AS t`,
		`SELECT SCHEMA.archive(NULL, now())`,
		`SELECT SCHEMA.raise_lease_lost(1, 1)`,
		`SELECT SCHEMA.compact_length('{}')`,
		`SELECT SCHEMA.policy_interval('{}', 'a')`,
		`SELECT * FROM SCHEMA.lock_holder`,
		`SELECT * FROM SCHEMA.dependent`,
		`DELETE FROM SCHEMA.dependency`,
		`INSERT INTO SCHEMA.ended_note (id) VALUES (1)`,
		`SELECT SCHEMA.unblock(10)`,
		`SELECT SCHEMA.begin_waiting('{1}')`,
		`INSERT INTO SCHEMA.lock_note (name) VALUES ('account-7')`,
		`INSERT INTO SCHEMA.task (type, held) VALUES ('a', 'lock')`,
		`SELECT * FROM SCHEMA.sequence_holder`,
		`INSERT INTO SCHEMA.sequence_note (type, name) VALUES ('a', 'account-7')`,
		`DELETE FROM SCHEMA.sequence_failure`,
		`SELECT SCHEMA.take_turns('{1}')`,
		`SELECT SCHEMA.promote_turns(10)`,
		`SELECT SCHEMA.sequence_skip('a', 'account-7')`,
		`SELECT SCHEMA.sequence_retry('a', 'account-7')`,
		`SELECT SCHEMA.sequence_cancel('a', 'account-7')`,
		`SELECT SCHEMA.take_locks('{1}', '{a}', '{NULL}')`,
		`SELECT SCHEMA.promote_locks(10)`,
		`INSERT INTO SCHEMA.task (type, round) VALUES ('a', 1)`,
		`INSERT INTO SCHEMA.task (type, cause) VALUES ('a', 'failed')`,
		`INSERT INTO SCHEMA.batch (total) VALUES (1)`,
		`INSERT INTO SCHEMA.batch (born) VALUES (pg_current_xact_id())`,
		`SELECT total FROM SCHEMA.batch`,
		`UPDATE SCHEMA.batch SET stopping = true`,
		`INSERT INTO SCHEMA.batch_delta (batch_id, total) VALUES (1, 1)`,
		`SELECT * FROM SCHEMA.operation`,
		`SELECT * FROM SCHEMA.audit`,
		`SELECT SCHEMA.retry(1)`,
		`SELECT SCHEMA.rollback(1)`,
		`SELECT SCHEMA.cancel_batch(1)`,
		`SELECT SCHEMA.retry_batch(1)`,
		`SELECT SCHEMA.rollback_batch(1)`,
		`SELECT SCHEMA.requester('a')`,
		`SELECT SCHEMA.raise_conflict('a')`,
		`SELECT SCHEMA.can_roll_back('a', 1)`,
		`SELECT SCHEMA.with_rollback()`,
		`SELECT SCHEMA.reopen_batch(1)`,
		`SELECT SCHEMA.ensure_partition(now())`,
		`SELECT SCHEMA.cancel_waiting(t, '', true) FROM SCHEMA.task AS t`,
		`SELECT SCHEMA.cancel_waiting(NULL, '', true)`,
		`SELECT SCHEMA.cancel_rows('{1}', '{true}', '')`,
		`SELECT SCHEMA.revive('{1}', '{now}', 'retry')`,
		`SELECT SCHEMA.revive_one(NULL, 'retry')`,
		`SELECT SCHEMA.rollback_live(NULL, '')`,
		`SELECT SCHEMA.lock_batch(1)`,
		`SELECT SCHEMA.start_operation(1, 'cancel', '', false, '')`,
		`SELECT SCHEMA.admit_to_batch(1)`,
		`SELECT SCHEMA.reserve_start(1, 1)`,
		`SELECT SCHEMA.count_transition(1, 'running', 'failed', true, true)`,
		`SELECT SCHEMA.apply_step(1, 1, was_missed => false, was_at => NULL, was_id => NULL, was_goal => 0, was_taken => 0,
			was_refused => 0, who => '', ask => '{}', ask_fences => '{}', cancels => '{}', cancel_fences => '{}', cancel_rolls_back => '{}',
			revives => '{}', revive_fences => '{}', revive_dues => '{}', reopens => false, stops => true, ends => true)`,
		`SELECT SCHEMA.has_stopped(1)`,
		`SELECT SCHEMA.request_cancels('{1}', '{1}', '')`,
		`SELECT SCHEMA.cancel_all_waiting('{1}', '{1}', '{true}', '')`,
		`SELECT SCHEMA.step_revive('{1}', '{1}', '{now}', 'retry')`,
		`SELECT SCHEMA.sum_batches(1)`,
		`SELECT SCHEMA.apply_fold('{1}', '{0}', '{1}', '{end}')`,
		`SELECT SCHEMA.sum_deltas(1, 1)`,
		`SELECT SCHEMA.limit_tries(1, 10)`,
		`INSERT INTO SCHEMA.schedule (name, task, every, next_at) VALUES ('b', 'report', '1h', now())`,
		`INSERT INTO SCHEMA.schedule (name, task, every, source) VALUES ('b', 'report', '1h', 'hcl')`,
		`INSERT INTO SCHEMA.schedule (name, task, every, last_task) VALUES ('b', 'report', '1h', 1)`,
		`DELETE FROM SCHEMA.schedule`,
		`SELECT SCHEMA.pause('a')`,
		`SELECT SCHEMA.resume('a')`,
		`SELECT SCHEMA.cancel_orphans('a')`,
		`SELECT SCHEMA.move_orphans('a', 'b')`,
		`SELECT * FROM SCHEMA.type_pause`,
		`SELECT * FROM SCHEMA.orphans`,
		`INSERT INTO SCHEMA.type_pause (type) VALUES ('a')`,
		`SELECT SCHEMA.pause_schedule('acme')`,
		`SELECT SCHEMA.resume_schedule('acme')`,
		`SELECT SCHEMA.lock_schedule('acme')`,
		`UPDATE SCHEMA.schedule SET paused_at = now()`,
		`UPDATE SCHEMA.schedule SET parked_at = now()`,
		`UPDATE SCHEMA.schedule SET name = 'b'`,
		`UPDATE SCHEMA.schedule SET declared = 1`,
		`UPDATE SCHEMA.schedule SET source = 'hcl'`,
		`UPDATE SCHEMA.schedule SET version = 1`,
		`UPDATE SCHEMA.schedule SET next_at = now()`,
		`UPDATE SCHEMA.schedule SET cursor_at = NULL`,
		`SELECT last_task FROM SCHEMA.schedule`,
		`TRUNCATE SCHEMA.schedule`,
		`INSERT INTO SCHEMA.schedule (name, task, every, declared) VALUES ('b', 'report', '1h', 1)`,
		`DELETE FROM SCHEMA.schedules`,
		`SELECT name FROM SCHEMA.schedule_zone`,
		`SELECT SCHEMA.schedule_duration('every', '1h', 0)`,
		`SELECT SCHEMA.schedule_moment('from_at', '2026-12-01T00:00:00Z')`,
		`SELECT SCHEMA.cron_value('1', 0, 59, '')`,
		`SELECT SCHEMA.cron_values('minute', '*', 0, 59, 60)`,
		`SELECT SCHEMA.check_cron('0 3 * * *')`,
		`CREATE TRIGGER mine BEFORE INSERT ON SCHEMA.schedule FOR EACH ROW EXECUTE FUNCTION SCHEMA.schedule_declared()`,
		`CREATE TRIGGER mine BEFORE UPDATE ON SCHEMA.schedule FOR EACH ROW EXECUTE FUNCTION SCHEMA.schedule_changed()`,
		`CREATE TRIGGER mine BEFORE DELETE ON SCHEMA.schedule FOR EACH ROW EXECUTE FUNCTION SCHEMA.schedule_deleted()`,
		`INSERT INTO SCHEMA.schedule_zone (name) VALUES ('Mars/Phobos')`,
		`SELECT SCHEMA.end_batch(NULL)`,
		`SELECT * FROM SCHEMA.lease`,
		`INSERT INTO SCHEMA.lease (name, holder, ttl, acquired_at, expires_at) VALUES ('a', 'b', '1s', now(), now())`,
		`UPDATE SCHEMA.lease SET holder = 'a'`,
		`DELETE FROM SCHEMA.lease`,
		`UPDATE SCHEMA.leases SET holder = 'a'`,
		`DELETE FROM SCHEMA.leases`,
		`SELECT SCHEMA.lease_lapsed(now(), now())`,
		`SELECT SCHEMA.raise_named_lease_lost('a', 1)`,
		`SELECT nextval(pg_get_serial_sequence('SCHEMA.lease', 'fence'))`,
		`SELECT setval(pg_get_serial_sequence('SCHEMA.lease', 'fence'), 1)`,
		`SELECT nextval(pg_get_serial_sequence('SCHEMA.task', 'id'))`,
		`CREATE TABLE SCHEMA.mine (id int)`,
		`CREATE TRIGGER mine AFTER INSERT ON SCHEMA.task FOR EACH STATEMENT EXECUTE FUNCTION SCHEMA.task_inserted()`,
	} {
		_, err := app.Exec(t.Context(), h.q(mayNot))
		require.ErrorContains(t, err, "42501", mayNot)
	}
	// A role with USAGE alone may not even do that.
	usage := func(role string) string { return `GRANT USAGE ON SCHEMA ` + h.schema + ` TO ` + role }
	outsider := pgtest.ConnectTo(t, pgtest.Role(t, usage))
	for _, mayNot := range []string{
		`SELECT SCHEMA.enqueue('a')`, `INSERT INTO SCHEMA.task (type) VALUES ('a')`, `SELECT * FROM SCHEMA.tasks`,
		`SELECT SCHEMA.cancel(1)`, `SELECT SCHEMA.hold(1, 1)`, `SELECT SCHEMA.complete(1, 1)`, `SELECT SCHEMA.ping(1, 1)`,
		`INSERT INTO SCHEMA.batch (name) VALUES ('a')`, `SELECT * FROM SCHEMA.batches`, `SELECT SCHEMA.seal_batch(1)`,
		`SELECT SCHEMA.acquire('a', 'b', '30s')`, `SELECT SCHEMA.renew_lease('a', 1)`, `SELECT SCHEMA.release_lease('a', 1)`,
		`SELECT SCHEMA.hold_lease('a', 1)`, `SELECT * FROM SCHEMA.leases`,
	} {
		_, err := outsider.Exec(t.Context(), h.q(mayNot))
		require.ErrorContains(t, err, "42501", mayNot)
	}
}

// TestAnOperatorsRights: what applications may do, and more.
func TestAnOperatorsRights(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	joined(t, h)
	id, ids := h.batchOf(t, 2, store.BatchRequest{})
	operator := pgtest.ConnectTo(t, h.asOperator)
	call := func(text string, of int64) (answer string) {
		require.NoError(t, operator.QueryRow(t.Context(), h.q(text), of).Scan(&answer), text)
		return answer
	}
	require.Equal(t, "pending", call(`SELECT SCHEMA.retry($1)`, int64(ids[0])))
	require.Equal(t, "cancelled", call(`SELECT SCHEMA.cancel($1)`, int64(ids[0])))
	require.Equal(t, "pending", call(`SELECT SCHEMA.retry($1)`, int64(ids[0])))
	require.Equal(t, "pending", call(`SELECT SCHEMA.retry_batch($1)`, int64(id)))
	require.Equal(t, "cancelling", call(`SELECT SCHEMA.cancel_batch($1)`, int64(id)))
	require.Equal(t, "rolling_back", call(`SELECT SCHEMA.rollback_batch($1)`, int64(id)))
	for text, answer := range map[string]string{`SELECT SCHEMA.pause('a')`: "paused", `SELECT SCHEMA.resume('b')`: "unchanged"} {
		var got string
		require.NoError(t, operator.QueryRow(t.Context(), h.q(text)).Scan(&got), text)
		require.Equal(t, answer, got)
	}
	var paused string
	require.NoError(t, operator.QueryRow(t.Context(), h.q(`SELECT type FROM SCHEMA.type_pause`)).Scan(&paused))
	require.Equal(t, "a", paused)
	var changed int
	require.NoError(t, operator.QueryRow(t.Context(), h.q(`SELECT (SCHEMA.cancel_orphans('none')->>'changed')::integer
		+ (SCHEMA.move_orphans('none', 'b')->>'changed')::integer`)).Scan(&changed))
	require.Zero(t, changed)
	_, err := operator.Exec(t.Context(), h.q(`SELECT * FROM SCHEMA.orphans`))
	require.NoError(t, err)
	var role string
	require.NoError(t, operator.QueryRow(t.Context(), `SELECT session_user`).Scan(&role))
	for _, a := range h.Audit(t) {
		require.Equal(t, role, a.Who, "the role, where no name was given")
		require.Equal(t, role, a.Role)
	}
	// Who says that he is another is noted all the same, also where his session has taken another role.
	_, err = operator.Exec(t.Context(), h.q(`SELECT SCHEMA.cancel(SCHEMA.enqueue('a'), 'alice')`))
	require.NoError(t, err)
	reports := h.Audit(t)
	require.Equal(t, "alice", reports[len(reports)-1].Who)
	require.Equal(t, role, reports[len(reports)-1].Role)
	for _, mayNot := range []string{
		`SELECT * FROM SCHEMA.audit`, `UPDATE SCHEMA.batch SET stopping = false`, `SELECT SCHEMA.has_stopped(1)`, `SELECT SCHEMA.sum_batches(1)`,
	} {
		_, err := operator.Exec(t.Context(), h.q(mayNot))
		require.ErrorContains(t, err, "42501", mayNot)
	}
}

// TestFunctionsKeepToThemselves has an application put its own functions and tables where a name might lead.
func TestFunctionsKeepToThemselves(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	a := joined(t, h)
	require.NoError(t, a.Idle(t.Context(), a.session, true))
	app := pgtest.ConnectTo(t, h.asApp)
	_, err := app.Exec(t.Context(), h.q(`
		CREATE TEMPORARY TABLE task (id bigint, type text, key text, payload jsonb);
		CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';
		CREATE FUNCTION pg_temp.pg_notify(text, text) RETURNS void LANGUAGE plpgsql
			AS 'BEGIN RAISE EXCEPTION ''caught''; END';
		SET search_path = pg_temp, pg_catalog;
		SELECT SCHEMA.enqueue('a', key => 'k')`))
	require.NoError(t, err)
	require.EqualValues(t, 1, h.number(t, `SELECT count(*) FROM SCHEMA.task WHERE key = 'k' AND run_at IS NOT NULL`))

	rows := a.take(t, 2)
	_, err = app.Exec(t.Context(), h.q(fmt.Sprintf(`
		CREATE TEMPORARY TABLE policy (hash bigint, body jsonb);
		CREATE TEMPORARY TABLE task_archive (id bigint, fence bigint, outcome text, state text);
		CREATE FUNCTION pg_temp.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz';
		CREATE FUNCTION pg_temp.to_jsonb(text) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';
		SELECT SCHEMA.hold(%[1]d, 1);
		SELECT SCHEMA.ping(%[1]d, 1, 'page 4');
		SELECT SCHEMA.cancel(%[1]d);
		SELECT SCHEMA.cancel(SCHEMA.enqueue('b'));
		SELECT SCHEMA.complete(%[1]d, 1, '{}');`, rows[0].ID)))
	require.NoError(t, err)
	require.EqualValues(t, 2, h.number(t, `SELECT count(*) FROM SCHEMA.task_archive`))
	info, err := h.Get(t.Context(), rows[0].ID)
	require.NoError(t, err)
	require.JSONEq(t, `"page 4"`, string(info.Progress))
	var role string
	require.NoError(t, app.QueryRow(t.Context(), `SELECT session_user`).Scan(&role))
	require.Equal(t, role, info.CancelRequestedBy, "the role, where no name was given")
}

// TestInsertsAreNotMisled inserts with a search_path on which everything that the trigger could use has an impostor.
func TestInsertsAreNotMisled(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	a := joined(t, h)
	require.NoError(t, a.Idle(t.Context(), a.session, true))
	evil := pgtest.Schema(t)
	_, err := pgtest.Connect(t).Exec(t.Context(), strings.ReplaceAll(`
		CREATE SCHEMA EVIL;
		CREATE FUNCTION EVIL.caught(timestamptz, timestamptz) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''caught''; END';
		CREATE FUNCTION EVIL.caught(bigint, integer) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''caught''; END';
		CREATE FUNCTION EVIL.caught(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RAISE ''caught''; END';
		CREATE FUNCTION EVIL.now() RETURNS timestamptz LANGUAGE plpgsql AS 'BEGIN RAISE ''caught''; END';
		CREATE FUNCTION EVIL.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS 'BEGIN RAISE ''caught''; END';
		CREATE OPERATOR EVIL.> (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = EVIL.caught);
		CREATE OPERATOR EVIL.= (LEFTARG = bigint, RIGHTARG = integer, FUNCTION = EVIL.caught);
		CREATE OPERATOR EVIL.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = EVIL.caught);
		CREATE AGGREGATE EVIL.count(*) (SFUNC = int8inc, STYPE = bigint, INITCOND = '41');
		CREATE TABLE EVIL.inserted (batch_id bigint, fence bigint);
		GRANT USAGE ON SCHEMA EVIL TO PUBLIC;`, "EVIL", evil))
	require.NoError(t, err)
	app := pgtest.ConnectTo(t, h.asApp)
	for _, text := range []string{
		`SET search_path = ` + evil + `, pg_catalog`,
		`INSERT INTO SCHEMA.task (type) VALUES ('a')`,
		`BEGIN`,
		`INSERT INTO SCHEMA.batch DEFAULT VALUES`,
		`INSERT INTO SCHEMA.task (type, batch_id) VALUES ('a', 1), ('a', 1)`,
		`COMMIT`,
	} {
		_, err := app.Exec(t.Context(), h.q(text))
		require.NoError(t, err, text)
	}
	require.EqualValues(t, 2, h.number(t, `SELECT total FROM SCHEMA.batches`))
}

// TestRefusalsReadWell has an application run into each constraint by plain SQL, and the Go call say the same.
func TestRefusalsReadWell(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	app := pgtest.ConnectTo(t, h.asApp)
	for columns, text := range map[string]string{
		`(type) VALUES ('')`:                                                                    "type must not be empty",
		`(type, priority) VALUES ('a', 11)`:                                                     "priority must be between -10 and 10",
		`(type, max_attempts) VALUES ('a', 0)`:                                                  "max_attempts must be between 1 and 1000",
		`(type, key) VALUES ('a', '')`:                                                          "key must not be empty: leave it out instead",
		`(type, labels) VALUES ('a', '[]')`:                                                     "labels must be a JSON object of strings",
		`(type, labels) VALUES ('a', '"x"')`:                                                    "labels must be a JSON object of strings",
		`(type, labels) VALUES ('a', '{"a": 1}')`:                                               "labels must be a JSON object of strings",
		`(type, labels) VALUES ('a', '{"a": ["b"]}')`:                                           "labels must be a JSON object of strings",
		`(type, labels) VALUES ('a', '{"a": null}')`:                                            "labels must be a JSON object of strings",
		`(type, labels) VALUES ('a', to_jsonb(('{"a": "' || repeat('x', 4096) || '"}')::json))`: "labels must be 4 KiB at most",
		`(type, run_at) VALUES ('a', 'infinity')`:                                               "run_at must be within the years 1 to 9999",
		`(type, run_at) VALUES ('a', '-infinity')`:                                              "run_at must be within the years 1 to 9999",
		`(type) VALUES (repeat('x', 256))`:                                                      "type must be 255 bytes at most",
		`(type, key) VALUES ('a', repeat('x', 1025))`:                                           "key must be 1 KiB at most",
		`(type, region) VALUES ('a', repeat('ü', 128))`:                                         "region must be 255 bytes at most",
		`(type, lock) VALUES ('a', '')`:                                                         "lock must not be empty: leave it out instead",
		`(type, lock) VALUES ('a', repeat('x', 1025))`:                                          "lock must be 1 KiB at most",
		`(type, sequence) VALUES ('a', '')`:                                                     "sequence must not be empty: leave it out instead",
		`(type, sequence) VALUES ('a', repeat('x', 1025))`:                                      "sequence must be 1 KiB at most",
		`(type, tenant) VALUES ('a', '')`:                                                       "tenant must not be empty: leave it out instead",
		`(type, tenant) VALUES ('a', repeat('x', 1025))`:                                        "tenant must be 1 KiB at most",
		`(type, after_if) VALUES ('a', 'failed')`:                                               "after_if must be succeeded or any",
		`(type, traceparent) VALUES ('a', repeat('x', 513))`:                                    "traceparent must be 512 bytes at most",
		`(type, created_by) VALUES ('a', repeat('x', 513))`:                                     "created_by must be 512 bytes at most",
		`(type, max_attempts) VALUES ('a', 1001)`:                                               "max_attempts must be between 1 and 1000",
	} {
		_, err := app.Exec(t.Context(), h.q(`INSERT INTO SCHEMA.task `+columns))
		require.ErrorContains(t, err, `violates check constraint "`+text+`"`, columns)
	}
	for text, r := range map[string]store.EnqueueRequest{
		"type must not be empty":                      {},
		"priority must be between -10 and 10":         {Type: "a", Priority: 11},
		"out of range":                                {Type: "a", Priority: 70000},
		"max_attempts must be between 1 and 1000":     {Type: "a", MaxAttempts: -1},
		"invalid input syntax for type json":          {Type: "a", Payload: []byte(`{"a": `)},
		"unsupported Unicode escape sequence":         {Type: "a", Payload: []byte(`"\u0000"`)},
		"invalid byte sequence for encoding \"UTF8\"": {Type: "a\x00b"},
		"labels must be 4 KiB at most":                {Type: "a", Labels: map[string]string{"a": strings.Repeat("x", 4096)}},
	} {
		_, _, err := h.Enqueue(t.Context(), r)
		var input *store.InputError
		require.ErrorAs(t, err, &input, text)
		require.Contains(t, input.Text, text)
	}
	require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.task`))
}

// TestGrantsQuoteTheRole prints the grants of a role whose name is SQL. It holds its quotes to the end.
func TestGrantsQuoteTheRole(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	role := `a"; DROP SCHEMA ` + h.schema + ` CASCADE; -- {schema} $$ ` + pgtest.Name("role")
	quoted := pgx.Identifier{role}.Sanitize()
	pgtest.Exec(t, `CREATE ROLE `+quoted)
	t.Cleanup(func() { pgtest.Exec(t, `DROP OWNED BY `+quoted+`; DROP ROLE `+quoted) })
	for _, script := range []string{postgres.Grants(h.schema, role, false), postgres.Grants(h.schema, role, true), postgres.AgentGrants(h.schema, role)} {
		pgtest.Exec(t, script)
	}
	var may bool
	require.NoError(t, pgtest.Connect(t).QueryRow(t.Context(), `SELECT has_schema_privilege($1, $2, 'USAGE')`, role, h.schema).Scan(&may))
	require.True(t, may)
	require.NoError(t, h.Ping(t.Context()))
}
