-- Cancels a waiting row, which the caller has locked, and returns its new state: cancelled, or, where it was ever started
-- and can be rolled back, rollback_pending; due once no earlier attempt can still be at work.
CREATE OR REPLACE FUNCTION {schema}.cancel_waiting(t {schema}.task, who text, can boolean) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    was text := t.state;
BEGIN
    t.outcome := 'cancelled';
    t.error := CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END
        || coalesce(', by ' || who, '');
    IF t.ever_started AND can THEN
        UPDATE {schema}.task AS r SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = greatest(clock_timestamp(), r.lease_until),
            fence = r.fence + 1, outcome = t.outcome, error = t.error, cause = 'cancelled'
        WHERE r.id = t.id;
        PERFORM {schema}.count_transition(t.batch_id, was, 'rollback_pending', false, false);
        PERFORM pg_notify({channel_literal}, '');
        RETURN 'rollback_pending';
    END IF;
    t.state := 'cancelled';
    t.fence := t.fence + 1;
    t.cancel_asked := clock_timestamp();
    t.cancel_by := who;
    PERFORM {schema}.archive(t, NULL), {schema}.count_transition(t.batch_id, was, 'cancelled', false, false);
    RETURN 'cancelled';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_waiting({schema}.task, text, boolean) FROM PUBLIC;

-- Cancels a task and returns its new state, or 'cancelling' where it runs and is asked to stop. A repeat changes nothing.
-- by is for the audit; NULL is the role that calls, and '' is none.
CREATE OR REPLACE FUNCTION {schema}.cancel(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
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
        SELECT r.state INTO answer FROM {schema}.tasks AS r WHERE r.id = cancel.id;
        IF answer IS NULL THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        ELSIF answer IN ('succeeded', 'failed', 'cancelled', 'rolled_back', 'rollback_failed') THEN
            RETURN answer;
        END IF; -- it has just been revived
    END LOOP;
    IF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    ELSIF t.state = 'running' THEN
        answer := 'cancelling';
        IF t.cancel_asked IS NOT NULL THEN
            RETURN answer;
        END IF;
        UPDATE {schema}.task AS r SET cancel_asked = clock_timestamp(), cancel_by = who WHERE r.id = cancel.id;
        PERFORM pg_notify({channel_literal}, 'asked');
    ELSE
        answer := {schema}.cancel_waiting(t, who, {schema}.can_roll_back(NULL, t.policy));
    END IF;
    INSERT INTO {schema}.audit (who, verb, task_id, answer) VALUES (who, 'cancel', cancel.id, answer);
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel(bigint, text) FROM PUBLIC;
