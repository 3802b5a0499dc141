-- A claim walks the priorities of a type from the highest down (head_due), and takes the due rows of one priority at a time
-- (claim_due). INDEXED BY turns a bad plan into an error. The conditions on the state must be those of the index, word for
-- word, for SQLite to use it. A row of no region may be claimed by every agent; an agent without a region passes '', which
-- nullif makes a comparison with NULL: that half of the union ends at once.

-- name: stopping
-- Whether waiting rows belong to batches that are being stopped. Mostly none do, and then a claim need not check for them.
-- INDEXED BY batch_stopping: it has few entries or none, and the planner cannot know that. INDEXED BY task_batch: task_due has
-- the waiting rows of all batches.
SELECT EXISTS (
    SELECT 1 FROM batch INDEXED BY batch_stopping
    WHERE stopping = 1 AND ended_at IS NULL AND EXISTS (
        SELECT 1 FROM task INDEXED BY task_batch WHERE batch_id = batch.id AND state IN ('pending', 'retry_pending')));

-- name: head_due
-- The first row of the highest priority below a bound: one step in the index, so a million rows that are due next year cost as
-- little as one.
SELECT priority, run_at FROM task INDEXED BY task_due
WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = @region AND priority < @below
ORDER BY priority DESC, run_at, id LIMIT 1;

-- name: head_rollback
SELECT priority, run_at FROM task INDEXED BY task_rollback
WHERE state = 'rollback_pending' AND type = @type AND ifnull(region, '') = @region AND priority < @below
ORDER BY priority DESC, run_at, id LIMIT 1;

-- name: claim_due
-- Claims due rows of one type and priority. They are chosen before the first of them changes: at most @limit, and none once
-- those before it come to @bytes. An UPDATE reads and writes the whole row, so one with a document above store.MaxMaxPayload
-- (67108864), which no agent runs, must not be claimed.
UPDATE task SET state = 'running', {claim_set}
WHERE id IN (
    SELECT id FROM (
        SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (
            SELECT id, run_at, {document_bytes} AS bytes
            FROM task INDEXED BY task_due
            WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = ''
                AND priority = @priority AND run_at <= @now
                AND {largest_document} <= 67108864
            UNION ALL
            SELECT id, run_at, {document_bytes} AS bytes
            FROM task INDEXED BY task_due
            WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = nullif(@region, '')
                AND priority = @priority AND run_at <= @now
                AND {largest_document} <= 67108864
            ORDER BY run_at, id LIMIT @limit))
    WHERE before < @bytes)
RETURNING {claimed_columns};

-- name: claim_startable
-- claim_due while batches are being stopped: their rows are passed over, among the first @look_past. What stands behind these
-- waits until they are cancelled, as it would have waited for them to run.
UPDATE task SET state = 'running', {claim_set}
WHERE id IN (
    SELECT id FROM (
        SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (
            SELECT id, run_at, bytes FROM (
                SELECT id, run_at, batch_id, {document_bytes} AS bytes
                FROM task INDEXED BY task_due
                WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = ''
                    AND priority = @priority AND run_at <= @now
                    AND {largest_document} <= 67108864
                UNION ALL
                SELECT id, run_at, batch_id, {document_bytes} AS bytes
                FROM task INDEXED BY task_due
                WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = nullif(@region, '')
                    AND priority = @priority AND run_at <= @now
                    AND {largest_document} <= 67108864
                ORDER BY run_at, id LIMIT @look_past)
            WHERE batch_id IS NULL OR batch_id NOT IN (
                SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL)
            ORDER BY run_at, id LIMIT @limit))
    WHERE before < @bytes)
RETURNING {claimed_columns};

-- name: claim_rollback
-- claim_due of rows that wait for their rollback.
UPDATE task SET state = 'rollback_running', {claim_set}
WHERE id IN (
    SELECT id FROM (
        SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (
            SELECT id, run_at, {document_bytes} AS bytes
            FROM task INDEXED BY task_rollback
            WHERE state = 'rollback_pending' AND type = @type AND ifnull(region, '') = ''
                AND priority = @priority AND run_at <= @now
                AND {largest_document} <= 67108864
            UNION ALL
            SELECT id, run_at, {document_bytes} AS bytes
            FROM task INDEXED BY task_rollback
            WHERE state = 'rollback_pending' AND type = @type AND ifnull(region, '') = nullif(@region, '')
                AND priority = @priority AND run_at <= @now
                AND {largest_document} <= 67108864
            ORDER BY run_at, id LIMIT @limit))
    WHERE before < @bytes)
RETURNING {claimed_columns};

-- name: payload
SELECT payload FROM task WHERE id = @id;

-- name: claimed
-- What a claim took and the session still holds. INDEXED BY: there are few running rows.
SELECT {task_columns}
FROM task INDEXED BY task_running
WHERE session = @session AND claim = @claim AND state IN ('running', 'rollback_running')
ORDER BY priority DESC, run_at, id;

-- name: soonest
-- When the first row of one type and priority is due that may start, while batches are being stopped: see claim_startable.
SELECT run_at FROM (
    SELECT id, run_at, batch_id FROM task INDEXED BY task_due
    WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = '' AND priority = @priority
    UNION ALL
    SELECT id, run_at, batch_id FROM task INDEXED BY task_due
    WHERE state IN ('pending', 'retry_pending') AND type = @type AND ifnull(region, '') = nullif(@region, '') AND priority = @priority
    ORDER BY run_at, id LIMIT @look_past)
WHERE batch_id IS NULL OR batch_id NOT IN (
    SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL)
ORDER BY run_at LIMIT 1;
