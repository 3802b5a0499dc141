-- Cancels waiting rows, which the caller has locked. One with true in its place is rolled back: it waits for that, due once
-- no earlier attempt can still be at work. The others end.
CREATE OR REPLACE FUNCTION {schema}.cancel_rows(ids bigint[], rolls_back boolean[], who text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
    keyed record;
BEGIN
    IF false = ANY (rolls_back) THEN
        PERFORM {schema}.ensure_partition(ended);
    END IF;
    -- The lock, which the caller has, keeps the planner from anything but lookups by primary key.
    WITH hit AS MATERIALIZED (
        SELECT t.*, g.rolls_back,
            CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END
                || coalesce(', by ' || who, '') AS why
        FROM unnest(ids, rolls_back) AS g (id, rolls_back)
        CROSS JOIN LATERAL (SELECT * FROM {schema}.task AS r WHERE r.id = g.id FOR NO KEY UPDATE) AS t
    ), leaving AS (
        SELECT h.*, coalesce(h.spilled_from, h.region) AS end_region, 'cancelled' AS end_state, h.fence + 1 AS end_fence, h.attempt AS end_attempt,
            h.deferrals AS end_deferrals, h.ever_started AS end_ever_started, 'cancelled' AS end_outcome,
            h.why AS end_error, h.result AS end_result, NULL AS end_output, NULL::timestamptz AS end_started_at,
            ended AS end_finished_at, h.lease_until AS end_lease_until, ended AS end_cancel_requested_at,
            who AS end_cancel_requested_by, h.message AS end_message, h.progress AS end_progress, h.checkpoint AS end_checkpoint
        FROM hit AS h WHERE NOT h.rolls_back
    ), archived AS (
        {archive_row}
    ), deleted AS (
        DELETE FROM {schema}.task AS t WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE NOT h.rolls_back))
        RETURNING t.type, t.key, t.lease_until
    ), rolled_back AS (
        UPDATE {schema}.task AS t SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = greatest(ended, t.lease_until),
            first_due = NULL,
            fence = t.fence + 1, outcome = 'cancelled', cause = 'cancelled', held = NULL,
            error = 'cancelled while it waited' || coalesce(', by ' || who, '')
        WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE h.rolls_back))
    ), counted AS (
        INSERT INTO {schema}.batch_delta (batch_id, cancelled, rolling_back)
        SELECT h.batch_id, count(*) FILTER (WHERE NOT h.rolls_back), count(*) FILTER (WHERE h.rolls_back) FROM hit AS h
        WHERE h.batch_id IS NOT NULL GROUP BY h.batch_id
    ), noted AS ( -- others may wait behind one that is not held
        INSERT INTO {schema}.lock_note (name) SELECT h.lock FROM hit AS h WHERE h.lock IS NOT NULL AND h.held IS NULL
    ), ended_noted AS (
        INSERT INTO {schema}.ended_note (id) SELECT h.id FROM hit AS h WHERE h.awaited AND NOT h.rolls_back
    )
    SELECT array_agg(d.type) AS types, array_agg(d.key) AS keys, array_agg(d.lease_until) AS until INTO keyed
    FROM deleted AS d WHERE d.key IS NOT NULL;
    PERFORM {schema}.insert_followers(keyed.types, keyed.keys, keyed.until);
    IF true = ANY (rolls_back) THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_rows(bigint[], boolean[], text) FROM PUBLIC;

-- Cancels a waiting row, which the caller has locked, and returns its new state: cancelled, or, where it was ever started
-- and can be rolled back, rollback_pending. Go: task.RollsBack; a check compares the two.
CREATE OR REPLACE FUNCTION {schema}.cancel_waiting(t {schema}.task, who text, can boolean) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    rolls_back boolean := t.ever_started AND can;
BEGIN
    PERFORM {schema}.cancel_rows(ARRAY[t.id], ARRAY[rolls_back], who);
    RETURN CASE WHEN rolls_back THEN 'rollback_pending' ELSE 'cancelled' END;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_waiting({schema}.task, text, boolean) FROM PUBLIC;

-- Cancels a task and returns its new state, or 'cancelling' where it runs and is asked to stop. A repeat changes nothing.
-- by is for the audit; NULL is the role that calls, and '' is none.
CREATE OR REPLACE FUNCTION {schema}.cancel(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    t      {schema}.task;
    answer text;
    who    text := {schema}.requester(by);
BEGIN
    LOOP
        -- An application that holds the row FOR KEY SHARE does not block this lock.
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = cancel.id FOR NO KEY UPDATE;
        EXIT WHEN t.id IS NOT NULL;
        IF {schema}.cancel_follower(cancel.id, who) THEN
            INSERT INTO {schema}.audit (requested_by, verb, task_id, answer) VALUES (who, 'cancel', cancel.id, 'cancelled');
            RETURN 'cancelled';
        END IF;
        SELECT r.state INTO answer FROM {schema}.tasks AS r WHERE r.id = cancel.id;
        IF answer IS NULL THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        ELSIF answer IN ('succeeded', 'failed', 'cancelled', 'split', 'rolled_back', 'rollback_failed') THEN
            RETURN answer;
        END IF; -- it has just been revived, or was a follower until now
    END LOOP;
    IF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    ELSIF t.state = 'running' THEN
        answer := 'cancelling';
        IF t.cancel_requested_at IS NOT NULL THEN
            RETURN answer;
        END IF;
        UPDATE {schema}.task AS r SET cancel_requested_at = clock_timestamp(), cancel_requested_by = who
            WHERE r.id = cancel.id;
        PERFORM pg_notify({channel_literal}, 'asked');
    ELSE
        answer := {schema}.cancel_waiting(t, who, {schema}.can_roll_back(NULL, t.policy));
    END IF;
    INSERT INTO {schema}.audit (requested_by, verb, task_id, answer) VALUES (who, 'cancel', cancel.id, answer);
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel(bigint, text) FROM PUBLIC;
