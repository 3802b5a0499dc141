-- Cancels waiting rows, and returns how many. One that is to be rolled back, by the flag in its place, waits for that; due
-- once no earlier attempt can still be at work.
CREATE OR REPLACE FUNCTION {schema}.cancel_all_waiting(
    ids bigint[], fences bigint[], rolls_back boolean[], who text
) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
    n     record;
BEGIN
    PERFORM {schema}.ensure_partition(ended);
    WITH hit AS MATERIALIZED (
        SELECT t.*, g.rolls_back,
            CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END
                || coalesce(', by ' || who, '') AS why
        FROM unnest(ids, fences, rolls_back) AS g (id, fence, rolls_back)
        CROSS JOIN LATERAL (
            SELECT r.* FROM {schema}.task AS r
            WHERE r.id = g.id AND r.fence = g.fence AND r.state IN ('pending', 'retry_pending') FOR UPDATE SKIP LOCKED
        ) AS t
    ), deleted AS (
        DELETE FROM {schema}.task AS t WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE NOT h.rolls_back))
    ), archived AS (
        INSERT INTO {schema}.task_archive (
            id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, attempt, deferrals, ever_started, fence, session, policy, lease_until, deadline, outcome, error,
            result, finished_at, cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round, cause,
            rollback_payload)
        SELECT id, type, 'cancelled', priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, attempt, deferrals, ever_started, fence + 1, session, policy, lease_until, deadline, 'cancelled', why,
            result, ended, ended, who, message, progress, checkpoint, batch_id, round, cause, rollback_payload
        FROM hit WHERE NOT hit.rolls_back
    ), rolled_back AS (
        UPDATE {schema}.task AS t SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = greatest(ended, t.lease_until),
            fence = t.fence + 1, outcome = 'cancelled', cause = 'cancelled',
            error = 'cancelled while it waited' || coalesce(', by ' || who, '')
        WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE h.rolls_back))
    ), counted AS (
        INSERT INTO {schema}.batch_delta (batch_id, cancelled, undoing)
        SELECT h.batch_id, count(*) FILTER (WHERE NOT h.rolls_back), count(*) FILTER (WHERE h.rolls_back) FROM hit AS h
        WHERE h.batch_id IS NOT NULL GROUP BY h.batch_id
    )
    SELECT count(*) AS all_of, count(*) FILTER (WHERE h.rolls_back) AS rolls_back INTO n FROM hit AS h;
    IF n.rolls_back > 0 THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
    RETURN n.all_of;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_all_waiting(bigint[], bigint[], boolean[], text) FROM PUBLIC;
