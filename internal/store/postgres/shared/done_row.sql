-- How a row ends that is done at its first try, for archive_row.
SELECT id, type, priority, region AS end_region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    'succeeded' AS end_state, fence + 1 AS end_fence, attempt AS end_attempt, 0 AS end_deferrals,
    true AS end_ever_started, 'succeeded' AS end_outcome, NULL AS end_error,
    nullif((@results::text[])[place], '')::jsonb AS end_result, nullif((@outputs::text[])[place], '') AS end_output,
    now() - (@started::interval[])[place] AS end_started_at, now() AS end_finished_at,
    NULL::timestamptz AS end_lease_until, cancel_requested_at AS end_cancel_requested_at,
    cancel_requested_by AS end_cancel_requested_by, message AS end_message, progress AS end_progress,
    checkpoint AS end_checkpoint
FROM deleted
