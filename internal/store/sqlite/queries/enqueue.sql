-- name: enqueue
INSERT INTO task
    (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, created_at, batch_id, rollback_payload, lock,
    sequence,
    after, after_if, tenant)
VALUES (@type, @payload, @run_at, @priority, @key, @region, @max_attempts, @labels, @traceparent, @created_by, @now, @batch,
    @rollback_payload, @lock, @sequence, @after, @after_if, @tenant)
ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id;

-- name: enqueue_live
INSERT INTO enqueue (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, batch_id,
    rollback_payload, on_live, debounce_s, debounce_max_s, lock, sequence, after, after_if, tenant)
VALUES (@type, @payload, @run_at, @priority, @key, @region, @max_attempts, @labels, @traceparent, @created_by, @batch,
    @rollback_payload, @on_live, @debounce_s, @debounce_max_s, @lock, @sequence, @after, @after_if, @tenant);

-- name: enqueue_result
SELECT id, answer FROM enqueue_result;

-- name: live_with_key
SELECT id FROM task WHERE type = @type AND key = @key;

-- name: admission
-- Whether a batch accepts rows, and what keeps it from it.
SELECT (NOT sealed OR NOT seen) AND ended_at IS NULL, stopping, ifnull(requested, '') FROM batch WHERE id = @id;

-- name: create_batch
INSERT INTO batch (name, on_failure, finish_type, finish_payload, labels, created_by, sealed, created_at)
VALUES (@name, @on_failure, @finish_type, @finish_payload, @labels, @created_by, @sealed, @now)
RETURNING id;

-- name: next_number
-- The id that the next task gets which this transaction inserts.
SELECT ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'task'), 0) + 1;

-- name: insert_row
-- A row of a batch. For several rows, the values in parentheses are repeated (listOf).
INSERT INTO task (created_at, batch_id, type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by,
    rollback_payload, lock, sequence, after, after_if, tenant)
VALUES (@now, @batch, @type, @payload, @run_at, @priority, @key, @region, @max_attempts, @labels, @traceparent, @created_by,
    @rollback_payload, @lock, @sequence, @after, @after_if, @tenant);
