-- Copies rows to the archive: the one statement that does, for every way in which a row leaves the live table. The way
-- defines leaving, with the columns of task as they were, and end_ columns for what the end of the row decides.
INSERT INTO {schema}.task_archive (
    id, type, priority, region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    state, fence, attempt, deferrals, ever_started, outcome, error, result, output, started_at, finished_at, lease_until,
    cancel_requested_at, cancel_requested_by, message, progress, checkpoint)
SELECT id, type, priority, end_region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    end_state, end_fence, end_attempt, end_deferrals, end_ever_started, end_outcome, end_error, end_result, end_output,
    end_started_at, end_finished_at, end_lease_until, end_cancel_requested_at, end_cancel_requested_by, end_message,
    end_progress, end_checkpoint
FROM leaving
