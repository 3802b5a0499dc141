-- Ends the attempt with the fence as succeeded. Returns applied, ended (it has ended so before), lost, or busy where
-- another transaction has the row locked and wait is false. The start of the attempt itself is not known here: the time
-- of the claim stands for it.
CREATE OR REPLACE FUNCTION {schema}.take_complete(of bigint, with_fence bigint, wait boolean, new_result jsonb)
    RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    t       {schema}.task;
    was     text;
    as_type text;
BEGIN
    IF wait THEN
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE;
    ELSE
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE SKIP LOCKED;
    END IF;
    IF t.id IS NULL THEN
        -- In this order: a row moves from the live table to the archive. If it has been revived since, its history has it.
        IF EXISTS (SELECT FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0) THEN
            RETURN 'busy';
        ELSIF EXISTS (SELECT FROM {schema}.task_archive AS a
                      WHERE a.id = of AND a.fence = with_fence + 1 AND a.outcome = 'succeeded')
            OR EXISTS (SELECT FROM {schema}.attempt AS h
                       WHERE h.task_id = of AND h.fence = with_fence AND h.outcome = 'succeeded') THEN
            RETURN 'ended';
        END IF;
        RETURN 'lost';
    END IF;
    was := t.state;
    t.state := CASE was WHEN 'running' THEN 'succeeded' ELSE 'rolled_back' END;
    IF NOT ({first_success of=t.}) THEN
        INSERT INTO {schema}.attempt (
            task_id, fence, ran_fence, session, policy, phase, attempt, outcome, result, state, started_at, ended_at)
        VALUES (of, with_fence, with_fence, t.session, t.policy, CASE was WHEN 'running' THEN 'run' ELSE 'rollback' END,
            t.attempt, 'succeeded', new_result, t.state, t.claimed_at, clock_timestamp());
    END IF;
    IF {first_success of=t.} OR was = 'running' AND new_result IS NOT NULL THEN -- that of a rollback is in the history only
        t.result := new_result;
    END IF;
    -- A task has failed that is rolled back by this end: Go's task.FailedForGood; a check compares the two.
    IF was <> 'running' AND t.failed_task IS NULL AND coalesce(t.cause, '') NOT IN ('succeeded', 'cancelled') THEN
        as_type := (SELECT p.body ->> 'on_failed' FROM {schema}.policy AS p WHERE p.hash = t.policy);
        IF as_type IS NOT NULL THEN
            PERFORM {schema}.insert_on_failed(as_type, of, t.type, t.state, NULL, NULL, t.cause, t.payload, t.labels, coalesce(t.spilled_from, t.region), t.tenant,
                t.traceparent, NULL);
            t.failed_task := of;
        END IF;
    END IF;
    t.fence := t.fence + 1;
    t.outcome := 'succeeded';
    t.error := NULL;
    t.deferrals := 0;
    t.ever_started := true;
    t.lease_until := NULL;
    PERFORM {schema}.archive(t, t.claimed_at), {schema}.count_transition(t.batch_id, was, t.state, false, true);
    RETURN 'applied';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.take_complete(bigint, bigint, boolean, jsonb) FROM PUBLIC;

-- Completes a task in the caller's transaction. A repeat changes nothing and raises nothing.
CREATE OR REPLACE FUNCTION {schema}.complete(id bigint, fence bigint, result jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF {schema}.compact_length(result) > 65536 THEN
        RAISE EXCEPTION 'result must be 64 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF {schema}.take_complete(id, fence, true, result) NOT IN ('applied', 'ended') THEN
        PERFORM {schema}.raise_lease_lost(id, fence);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.complete(bigint, bigint, jsonb) FROM PUBLIC;
