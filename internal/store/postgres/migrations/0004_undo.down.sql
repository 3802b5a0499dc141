DROP FUNCTION {schema}.rollback(bigint, text);
DROP FUNCTION {schema}.rollback_live({schema}.task, text);
DROP FUNCTION {schema}.retry(bigint, text);
DROP FUNCTION {schema}.bring_back_one({schema}.task_archive, text);
DROP FUNCTION {schema}.going(bigint, integer);
DROP FUNCTION {schema}.bring_back(bigint[], timestamptz[], text);
CREATE OR REPLACE FUNCTION {schema}.cancel(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    t     {schema}.task;
    ended text;
    who   text := nullif(coalesce(by, session_user), '');
BEGIN
    IF octet_length(who) > 512 THEN
        RAISE EXCEPTION 'by must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- An application that keeps the row (FOR KEY SHARE) does not stand in the way of this lock.
    SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = cancel.id FOR NO KEY UPDATE;
    IF t.id IS NULL THEN
        SELECT a.state INTO ended FROM {schema}.task_archive AS a WHERE a.id = cancel.id LIMIT 1;
        IF ended IS NULL THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        END IF;
        RETURN ended;
    ELSIF t.state = 'running' THEN
        IF t.cancel_asked IS NULL THEN
            UPDATE {schema}.task AS r SET cancel_asked = clock_timestamp(), cancel_by = who WHERE r.id = cancel.id;
            PERFORM pg_notify({channel_literal}, 'asked');
        END IF;
        RETURN 'cancelling';
    ELSIF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    END IF;
    t.outcome := 'cancelled';
    t.error := CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END
        || coalesce(', by ' || who, '');
    IF t.ever_started AND EXISTS (SELECT FROM {schema}.policy AS p WHERE p.hash = t.policy AND p.body ? 'rollback') THEN
        UPDATE {schema}.task AS r SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = clock_timestamp(), fence = r.fence + 1,
            outcome = t.outcome, error = t.error
        WHERE r.id = cancel.id;
        PERFORM pg_notify({channel_literal}, '');
        RETURN 'rollback_pending';
    END IF;
    t.state := 'cancelled';
    t.fence := t.fence + 1;
    t.cancel_asked := clock_timestamp();
    t.cancel_by := who;
    PERFORM {schema}.bury(t, NULL);
    RETURN 'cancelled';
END
$leasehold$;
CREATE OR REPLACE FUNCTION {schema}.take_complete(of bigint, with_fence bigint, wait boolean, new_result jsonb) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    t {schema}.task;
BEGIN
    IF wait THEN
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE;
    ELSE
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE SKIP LOCKED;
    END IF;
    IF t.id IS NULL THEN
        -- In this order: a row goes from the one table to the other.
        IF EXISTS (SELECT FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0) THEN
            RETURN 'busy';
        ELSIF EXISTS (SELECT FROM {schema}.task_archive AS a
                      WHERE a.id = of AND a.fence = with_fence + 1 AND a.outcome = 'succeeded') THEN
            RETURN 'ended';
        END IF;
        RETURN 'lost';
    END IF;
    IF t.state = 'rollback_running' OR t.attempt <> 1 THEN -- of a first attempt the archive tells all there is
        INSERT INTO {schema}.attempt (
            task_id, fence, ran_fence, session, phase, attempt, outcome, result, state, started_at, ended_at)
        VALUES (of, with_fence, with_fence, t.session, CASE t.state WHEN 'running' THEN 'run' ELSE 'rollback' END,
            t.attempt, 'succeeded', new_result, CASE t.state WHEN 'running' THEN 'succeeded' ELSE 'rolled_back' END,
            t.claimed_at, clock_timestamp());
    END IF;
    t.state := CASE t.state WHEN 'running' THEN 'succeeded' ELSE 'rolled_back' END;
    t.fence := t.fence + 1;
    t.outcome := 'succeeded';
    t.error := NULL;
    t.result := CASE WHEN t.state = 'succeeded' AND t.attempt = 1 THEN new_result ELSE coalesce(new_result, t.result) END;
    t.deferrals := 0;
    t.ever_started := true;
    PERFORM {schema}.bury(t, t.claimed_at);
    RETURN 'applied';
END
$leasehold$;
CREATE OR REPLACE FUNCTION {schema}.bury(t {schema}.task, began timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
BEGIN
    PERFORM {schema}.make_place(ended);
    DELETE FROM {schema}.task AS r WHERE r.id = t.id;
    INSERT INTO {schema}.task_archive (
        id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, attempt, deferrals, ever_started, fence, session, policy, claimed_at, deadline, outcome, error, result,
        started_at, finished_at, cancel_asked, cancel_by, message, progress, checkpoint)
    VALUES (t.id, t.type, t.state, t.priority, t.region, t.key, t.run_at, t.payload, t.labels, t.traceparent,
        t.created_by, t.max_attempts, t.created_at, t.attempt, t.deferrals, t.ever_started, t.fence, t.session, t.policy,
        t.claimed_at, t.deadline, t.outcome, t.error, t.result, began, ended, t.cancel_asked, t.cancel_by, t.message,
        t.progress, t.checkpoint);
END
$leasehold$;
DROP FUNCTION {schema}.call_off({schema}.task, text, boolean);
DROP FUNCTION {schema}.reopen(bigint);
DROP FUNCTION {schema}.can_undo(text, bigint);
DROP FUNCTION {schema}.refuse(text);
DROP FUNCTION {schema}.who_asks(text);
