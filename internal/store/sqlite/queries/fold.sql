-- name: any_unseen
-- Whether a batch is new. INDEXED BY, here and below: the planner cannot know that nearly all batches have ended.
SELECT EXISTS (SELECT 1 FROM batch INDEXED BY batch_open WHERE ended_at IS NULL AND NOT seen);

-- name: see_batches
UPDATE batch INDEXED BY batch_open SET seen = 1 WHERE ended_at IS NULL AND NOT seen;

-- name: sum_batches
-- Open batches for which a fold has something to do: a task has failed and on_failure is to follow; tasks came that the
-- requested operation has not seen; or all is done. Conclude of internal/batch decides which; a test compares the two.
SELECT id, {batch_version}, name, round, on_failure, ifnull(requested, ''), by_failure, sealed,
    EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND task_id IS NULL AND ended_at IS NULL),
    EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND task_id IS NOT NULL AND ended_at IS NULL),
    total, rolling_back, succeeded, failed, cancelled, rolled_back, rollback_failed, failures, failures_seen
FROM batch INDEXED BY batch_open
WHERE ended_at IS NULL AND seen AND (
    requested IS NULL AND on_failure <> 'continue' AND failures > failures_seen
    OR requested IS NOT NULL AND total - succeeded - failed - cancelled - rolled_back - rollback_failed > rolling_back
        AND NOT EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND task_id IS NULL AND ended_at IS NULL)
    OR sealed AND total = succeeded + failed + cancelled + rolled_back + rollback_failed
        AND NOT EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND ended_at IS NULL))
ORDER BY id LIMIT @limit;

-- name: batch_seen
-- Of a batch in the round that was seen: whether an operation was requested, whether it is at that version, and whether an
-- operation on the batch, or any, is open.
SELECT requested IS NOT NULL, {batch_version} = @version,
    EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND task_id IS NULL AND ended_at IS NULL),
    EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND ended_at IS NULL)
FROM batch WHERE id = @id AND round = @round AND ended_at IS NULL;

-- name: mark_by_failure
UPDATE batch SET by_failure = 1 WHERE id = @id;

-- name: resume_operation
INSERT INTO operation (verb, batch_id, requested_by) SELECT requested, id, requested_by FROM batch WHERE id = @id;

-- name: end_batch
UPDATE batch SET ended_at = @now WHERE id = @id;

-- name: insert_finish_task
-- The task that a batch declares for its end.
INSERT INTO task (type, payload, run_at, created_at, created_by)
SELECT batches.finish_type, json_set(batch.finish_payload, '$.batch', json_object('id', batches.id, 'name', batches.name,
        'state', batches.state, 'round', batches.round, 'total', batches.total, 'succeeded', batches.succeeded, 'failed', batches.failed,
        'cancelled', batches.cancelled, 'rolled_back', batches.rolled_back, 'rollback_failed', batches.rollback_failed)),
    @now, @now, 'leasehold'
FROM batches JOIN batch ON batch.id = batches.id WHERE batches.id = @id AND batches.finish_type IS NOT NULL;
