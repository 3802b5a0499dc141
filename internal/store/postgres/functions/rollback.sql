-- Does what rollback does, for a row that is live and locked by the caller. A running one is asked to stop, and the
-- request is kept as an operation.
CREATE OR REPLACE FUNCTION {schema}.rollback_live(t {schema}.task, who text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    answer text;
BEGIN
    IF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    ELSIF NOT {schema}.can_roll_back(t.type, t.policy) THEN
        PERFORM {schema}.raise_conflict(format('the type %s has no rollback', to_json(t.type)));
    ELSIF t.state = 'running' THEN
        answer := 'cancelling';
        IF t.cancel_requested_at IS NULL THEN
            UPDATE {schema}.task AS r SET cancel_requested_at = clock_timestamp(), cancel_requested_by = who
                WHERE r.id = t.id;
            PERFORM pg_notify({channel_literal}, 'asked');
        END IF;
        IF EXISTS (SELECT FROM {schema}.operation AS o WHERE o.task_id = t.id AND o.ended_at IS NULL) THEN
            RETURN answer;
        END IF;
        INSERT INTO {schema}.operation (verb, batch_id, task_id, requested_at, requested_by)
        VALUES ('rollback', t.batch_id, t.id, clock_timestamp(), who);
    ELSE
        answer := {schema}.cancel_waiting(t, who, true);
    END IF;
    INSERT INTO {schema}.audit (requested_by, verb, task_id, answer) VALUES (who, 'rollback', t.id, answer);
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.rollback_live({schema}.task, text) FROM PUBLIC;

-- Rolls a task back if its type has a rollback, and returns its new state, or 'cancelling' where it runs and is asked to
-- stop.
CREATE OR REPLACE FUNCTION {schema}.rollback(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    seen record;
    t    {schema}.task;
    a    {schema}.task_archive;
    who  text := {schema}.requester(by);
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.state, r.batch_id, r.type, r.follows INTO seen FROM {schema}.tasks AS r WHERE r.id = rollback.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        END IF;
        PERFORM FROM {schema}.batch AS b WHERE b.id = seen.batch_id FOR NO KEY UPDATE;
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = rollback.id FOR NO KEY UPDATE;
        IF t.id IS NOT NULL THEN
            RETURN {schema}.rollback_live(t, who);
        END IF;
        IF seen.follows IS NOT NULL AND NOT {schema}.can_roll_back(seen.type, NULL) THEN
            PERFORM {schema}.raise_conflict(format('the type %s has no rollback', to_json(seen.type)));
        ELSIF {schema}.cancel_follower(rollback.id, who) THEN
            INSERT INTO {schema}.audit (requested_by, verb, task_id, answer) VALUES (who, 'rollback', rollback.id, 'cancelled');
            RETURN 'cancelled';
        END IF;
        SELECT r.* INTO a FROM {schema}.task_archive AS r WHERE r.id = rollback.id FOR UPDATE;
        EXIT WHEN a.id IS NOT NULL; -- else it has just moved between the tables, or is being removed
        PERFORM {schema}.limit_tries(rollback.id, try);
    END LOOP;
    IF a.state IN ('rolled_back', 'split') THEN -- what was split is rolled back as its halves
        RETURN a.state;
    ELSIF NOT {schema}.can_roll_back(a.type, a.policy) THEN
        PERFORM {schema}.raise_conflict(format('the type %s has no rollback', to_json(a.type)));
    ELSIF NOT a.ever_started THEN
        RETURN a.state;
    END IF;
    PERFORM {schema}.revive_one(a, 'rollback');
    INSERT INTO {schema}.audit (requested_by, verb, task_id, answer) VALUES (who, 'rollback', rollback.id,
        'rollback_pending');
    RETURN 'rollback_pending';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.rollback(bigint, text) FROM PUBLIC;
