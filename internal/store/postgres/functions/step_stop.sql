-- Asks running rows of a batch to stop, and cancels waiting ones: so many at most, locked ones another time. It is over
-- when no row of the batch runs or waits to run, and no open transaction inserts one.
CREATE OR REPLACE FUNCTION {schema}.step_stop(
    INOUT o {schema}.operation, most bigint, OUT changed bigint, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    n        bigint;
    from_top boolean;
BEGIN
    -- By the index task_running, whose condition the first one on the state is: "+ 0" keeps the planner from that of
    -- batches, which has a million waiting rows and none that runs.
    WITH hit AS MATERIALIZED (
        SELECT t.id FROM {schema}.task AS t
        WHERE t.state IN ('running', 'rollback_running') AND t.state = 'running' AND t.batch_id + 0 = o.batch_id
          AND t.cancel_asked IS NULL
        LIMIT most FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE {schema}.task AS t SET
        cancel_asked = clock_timestamp(),
        cancel_by = format('batch %s', o.batch_id) || coalesce(format(' (%s by %s)', o.verb, o.requested_by), '')
    WHERE t.id = ANY (ARRAY(SELECT hit.id FROM hit));
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed > 0 THEN
        PERFORM pg_notify({channel_literal}, 'asked');
    END IF;
    -- The cursor spares each step the dead entries of those before. What turns out to be behind it takes another pass.
    WHILE changed < most AND (SELECT v.waiting > 0 FROM {schema}.batches AS v WHERE v.id = o.batch_id) LOOP
        from_top := o.after_id IS NULL;
        SELECT s.called, s.last INTO n, o.after_id FROM {schema}.cancel_waiting_some(o, most - changed) AS s;
        changed := changed + n;
        EXIT WHEN from_top OR n > 0;
    END LOOP;
    over := false;
    IF (SELECT v.live = v.undoing FROM {schema}.batches AS v WHERE v.id = o.batch_id) THEN
        -- A transaction that has inserted a row and not committed holds the batch FOR KEY SHARE. What has committed by
        -- now, the next statement sees.
        PERFORM FROM {schema}.batch AS b WHERE b.id = o.batch_id FOR UPDATE SKIP LOCKED;
        over := FOUND AND (SELECT v.live = v.undoing FROM {schema}.batches AS v WHERE v.id = o.batch_id);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_stop({schema}.operation, bigint) FROM PUBLIC;

-- Cancels so many waiting rows of a batch at most, from the cursor on. last is the new cursor, or NULL where nothing is
-- left behind it. A cancel goes by the policy that a row's last attempt started with, as everywhere; a rollback by all
-- policies of the type.
CREATE OR REPLACE FUNCTION {schema}.cancel_waiting_some(o {schema}.operation, most bigint, OUT called bigint, OUT last bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
    can   record;
    rolls_back  bigint;
BEGIN
    SELECT * INTO can FROM {schema}.with_rollback();
    PERFORM {schema}.ensure_partition(ended);
    -- The comparison of whole rows is one walk along the index task_batch, from the cursor on.
    WITH hit AS MATERIALIZED (
        SELECT t.*, t.ever_started AND (t.policy = ANY (can.hashes) OR o.verb = 'rollback'
            AND t.type = ANY (can.types)) IS TRUE
                AS rolls_back,
            CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END || ', by ' ||
                format('batch %s', o.batch_id) || coalesce(format(' (%s by %s)', o.verb, o.requested_by), '') AS why
        FROM {schema}.task AS t
        WHERE t.batch_id IS NOT NULL AND (t.batch_id, t.id) > (o.batch_id, coalesce(o.after_id, 0))
          AND (t.batch_id, t.id) < (o.batch_id + 1, 0) AND t.state IN ('pending', 'retry_pending')
        ORDER BY t.batch_id, t.id LIMIT most FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM {schema}.task AS t WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE NOT h.rolls_back))
    ), archived AS (
        INSERT INTO {schema}.task_archive (
            id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, attempt, deferrals, ever_started, fence, session, policy, lease_until, deadline, outcome, error,
                result,
            finished_at, cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round, cause, rollback_payload)
        SELECT id, type, 'cancelled', priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, attempt, deferrals, ever_started, fence + 1, session, policy, lease_until, deadline, 'cancelled', why,
            result, ended, ended, format('batch %s', o.batch_id) || coalesce(format(' (%s by %s)', o.verb,
                o.requested_by), ''),
            message, progress, checkpoint, batch_id, round, cause, rollback_payload
        FROM hit WHERE NOT hit.rolls_back
    ), rolled_back AS (
        UPDATE {schema}.task AS t SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = greatest(ended, t.lease_until),
            fence = t.fence + 1, outcome = 'cancelled', cause = 'cancelled',
            error = 'cancelled while it waited, by ' || format('batch %s', o.batch_id)
                || coalesce(format(' (%s by %s)', o.verb, o.requested_by), '')
        WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE h.rolls_back))
    ), counted AS (
        INSERT INTO {schema}.batch_delta (batch_id, cancelled, undoing)
        SELECT o.batch_id, count(*) FILTER (WHERE NOT h.rolls_back), count(*) FILTER (WHERE h.rolls_back) FROM hit AS h
        HAVING count(*) > 0
    )
    SELECT count(*), count(*) FILTER (WHERE h.rolls_back), CASE WHEN count(*) >= most THEN max(h.id) END INTO called, rolls_back, last
    FROM hit AS h;
    IF rolls_back > 0 THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_waiting_some({schema}.operation, bigint) FROM PUBLIC;
