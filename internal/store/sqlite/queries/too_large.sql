-- Rows with a document that no agent can run: above store.MaxMaxPayload (67108864). Only what bypasses the triggers is so large.

-- name: too_large_due
SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM task INDEXED BY task_due
WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = '' AND priority = @priority AND run_at <= @now
    AND NOT ({small_documents})
UNION ALL
SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM task INDEXED BY task_due
WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = nullif(@region, '') AND priority = @priority AND run_at <= @now
    AND NOT ({small_documents})
LIMIT 100;

-- name: too_large_rollback
SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM task INDEXED BY task_rollback
WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = '' AND priority = @priority AND run_at <= @now
    AND NOT ({small_documents})
UNION ALL
SELECT id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM task INDEXED BY task_rollback
WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL AND type = @type AND ifnull(region, '') = nullif(@region, '') AND priority = @priority AND run_at <= @now
    AND NOT ({small_documents})
LIMIT 100;

-- name: reject
-- Archives such a row without its documents. The policy is that of the claim: the row may never have had one.
INSERT INTO archive (id, state, attempt, deferrals, ever_started, outcome, error, new_result, finished_at, drops_documents, on_failed)
SELECT id, @state, attempt, deferrals, ever_started, 'rejected', @error, 1, @now, 1,
    (SELECT json_extract(policy.body, '$.on_failed') FROM policy WHERE policy.hash = @policy)
FROM task WHERE id = @id;
