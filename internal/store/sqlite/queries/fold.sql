-- name: any_unseen
-- Whether a batch is new. INDEXED BY, here and below: the planner cannot know that nearly all batches have ended.
SELECT EXISTS (SELECT 1 FROM batch INDEXED BY batch_open WHERE ended_at IS NULL AND NOT seen);

-- name: see_batches
UPDATE batch INDEXED BY batch_open SET seen = 1 WHERE ended_at IS NULL AND NOT seen;

-- name: sum_batches
-- Open batches for which a fold has something to do: a task has failed and on_failure is to follow, or all is done. Conclude of
-- internal/batch decides which; a test compares the two. They come in random order, so that some that cannot be ended do not
-- keep the others from it.
SELECT {summed_batch}
FROM batch INDEXED BY batch_open
WHERE ended_at IS NULL AND seen AND (
    requested IS NULL AND on_failure <> 'continue' AND failures > failures_seen
    OR sealed AND total = succeeded + failed + cancelled + rolled_back + rollback_failed
        AND NOT EXISTS (SELECT 1 FROM operation WHERE batch_id = batch.id AND ended_at IS NULL)
        AND NOT EXISTS (SELECT 1 FROM revived_note WHERE batch_id = batch.id))
ORDER BY random() LIMIT @limit;

-- name: summed_batch
SELECT {summed_batch} FROM batch WHERE id = @id AND ended_at IS NULL;

-- name: mark_by_failure
UPDATE batch SET by_failure = 1 WHERE id = @id;

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
