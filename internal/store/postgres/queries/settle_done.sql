-- Settles tasks that are done at their first try, which is what most settlements are. The row leaves the hot table and
-- enters the archive as it was, so there is nothing to lock first and no history to write, at two thirds of what
-- settle.sql costs.
--
-- The arguments are sorted by id; a row finds its values by width_bucket, a bisection of the ids. Locks of others are
-- waited for, so that wait has a bound of its own: past it, settle.sql skips the rows. Rows of batches are left to
-- settle.sql, and counted there: to be spared that is a twentieth of it all. Where batches are at work,
-- settle_done_counted.sql runs.
WITH bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', '40ms', true) IS NOT NULL AS set
), deleted AS (
    DELETE FROM {schema}.task AS t
    WHERE t.id = ANY (@ids::bigint[]) AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
        AND t.session = @session
      AND t.claim IS NOT NULL AND (SELECT set FROM bound) AND t.batch_id IS NULL
    RETURNING t.id, t.type, t.priority, t.region, t.key, t.run_at, t.payload, t.labels, t.traceparent, t.created_by,
        t.max_attempts, t.created_at, t.attempt, t.fence, t.session, t.policy, t.claimed_at, t.deadline, t.cancel_asked,
        t.cancel_by, t.message, t.progress, t.checkpoint, t.batch_id, t.round, t.rollback_payload,
        width_bucket(t.id, @ids::bigint[]) AS place
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
