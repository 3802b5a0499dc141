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
        t.max_attempts, t.created_at, t.attempt, t.fence, t.session, t.policy, t.claimed_at, t.deadline,
        t.cancel_requested_at,
        t.cancel_requested_by, t.message, t.progress, t.checkpoint, t.batch_id, t.round, t.cause,
        t.rollback_payload,
        width_bucket(t.id, @ids::bigint[]) AS place
), leaving AS (
    SELECT id, type, priority, region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
        created_at, session, policy, claimed_at, deadline, batch_id, round, cause,
        'succeeded' AS end_state, fence + 1 AS end_fence, attempt AS end_attempt, 0 AS end_deferrals,
        true AS end_ever_started, 'succeeded' AS end_outcome, NULL AS end_error,
        nullif((@results::text[])[place], '')::jsonb AS end_result, nullif((@outputs::text[])[place], '') AS end_output,
        now() - (@started::interval[])[place] AS end_started_at, now() AS end_finished_at,
        NULL::timestamptz AS end_lease_until, cancel_requested_at AS end_cancel_asked, cancel_requested_by
        AS end_cancel_by,
        message AS end_message, progress AS end_progress, checkpoint AS end_checkpoint
    FROM deleted
)
{archive_row}
RETURNING id
