-- Settles as settle_done.sql does, rows of batches included: it counts them.
WITH bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', '40ms', true) IS NOT NULL AS set
), deleted AS (
    DELETE FROM {schema}.task AS t
    WHERE t.id = ANY (@ids::bigint[]) AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
        AND t.session = @session
      AND t.claim IS NOT NULL AND (SELECT set FROM bound)
    RETURNING t.id, t.type, t.priority, t.region, t.key, t.run_at, t.payload, t.labels, t.traceparent, t.created_by,
        t.max_attempts, t.created_at, t.attempt, t.fence, t.session, t.policy, t.claimed_at, t.deadline, t.cancel_asked,
        t.cancel_by, t.message, t.progress, t.checkpoint, t.batch_id, t.round, t.rollback_payload,
        width_bucket(t.id, @ids::bigint[]) AS place
), counted AS (
    INSERT INTO {schema}.batch_delta (batch_id, running, succeeded, attempts)
    SELECT batch_id, -count(*), count(*), count(*) FROM deleted WHERE batch_id IS NOT NULL GROUP BY batch_id
)
INSERT INTO {schema}.task_archive (
    id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
    attempt, deferrals, ever_started, fence, session, policy, claimed_at, deadline, outcome, result, output, started_at,
    finished_at, cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round, rollback_payload)
SELECT id, type, 'succeeded', priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
    created_at, attempt, 0, true, fence + 1, session, policy, claimed_at, deadline, 'succeeded',
    nullif((@results::text[])[place], '')::jsonb, nullif((@outputs::text[])[place], ''),
    now() - (@started::interval[])[place], now(), cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round,
    rollback_payload
FROM deleted
RETURNING id
