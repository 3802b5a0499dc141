-- What a list reads of a table, beside the time at which a row finished, whether it is detached and whether it is held.
id, type, state, priority, {region} AS region, key, labels, payload, result, error, outcome, attempt, max_attempts, deferrals,
    ever_started, fence, session, created_by, traceparent, created_at, run_at, claimed_at, lease_until, deadline, progress,
    message, checkpoint, cancel_requested_at, cancel_requested_by, batch_id, round, rollback_payload, cause, lock, sequence, tenant, {spilled} AS spilled
