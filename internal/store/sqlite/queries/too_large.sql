-- Rows with a document that no agent can run: above store.MaxMaxPayload (67108864). Only what bypasses the triggers is so large.

-- name: too_large_due
SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM task INDEXED BY task_due
WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = '' AND priority = @priority AND run_at <= @now
    AND max(octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
        ifnull(octet_length(checkpoint), 0)) > 67108864
UNION ALL
SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM task INDEXED BY task_due
WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = nullif(@region, '') AND priority = @priority AND run_at <= @now
    AND max(octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
        ifnull(octet_length(checkpoint), 0)) > 67108864
LIMIT 100;

-- name: too_large_rollback
SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM task INDEXED BY task_rollback
WHERE state = 'rollback_pending' AND type = @type AND ifnull(region, '') = '' AND priority = @priority AND run_at <= @now
    AND max(octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
        ifnull(octet_length(checkpoint), 0)) > 67108864
UNION ALL
SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM task INDEXED BY task_rollback
WHERE state = 'rollback_pending' AND type = @type AND ifnull(region, '') = nullif(@region, '') AND priority = @priority AND run_at <= @now
    AND max(octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
        ifnull(octet_length(checkpoint), 0)) > 67108864
LIMIT 100;

-- name: reject
-- Archives such a row without its documents: to copy them would take their size in memory, twice. An empty payload is no JSON,
-- so nothing can retry the row by mistake. The fence: see claim_due.
INSERT INTO task_archive (
    id, type, priority, region, key, run_at, traceparent, created_by, max_attempts, created_at, session, claim, policy,
    claimed_at, deadline, progress, message, cancel_requested_at, cancel_requested_by, batch_id, cause, round, attempt,
    deferrals, ever_started,
    payload, state, fence, outcome, error, finished_at)
SELECT id, type, priority, region, key, run_at, traceparent, created_by, max_attempts, created_at, session, claim, policy,
    claimed_at, deadline, progress, message, cancel_requested_at, cancel_requested_by, batch_id, cause, round, attempt,
    deferrals, ever_started,
    '', iif(state = 'rollback_pending', 'rollback_failed', 'failed'), max(min(fence, 4611686018426339328), 0) + 1,
    'rejected', @error, @now
FROM task WHERE id = @id;

-- name: count_rejected
UPDATE batch SET (failed, failures, rolling_back, rollback_failed) = (
    SELECT failed + (rejected.state = 'failed'), failures + (rejected.state = 'failed'),
        rolling_back - (rejected.state <> 'failed'), rollback_failed + (rejected.state <> 'failed')
    FROM task_archive AS rejected WHERE rejected.id = @id)
WHERE id = (SELECT batch_id FROM task_archive WHERE id = @id);

-- name: delete_rejected
DELETE FROM task WHERE id = @id;
