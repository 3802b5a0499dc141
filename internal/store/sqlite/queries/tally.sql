-- The counters of batches, when rows are settled.

-- name: any_open_batch
-- Whether a batch has not ended. Where none is open, no row of one can be settled, and settled rows need not be checked.
SELECT EXISTS (SELECT 1 FROM batch INDEXED BY batch_open WHERE ended_at IS NULL);

-- name: of_batch
-- Which of some live rows belong to batches. NOT INDEXED: the planner must not prefer task_batch to the ids.
SELECT id, batch_id, ifnull(cause, '') FROM task NOT INDEXED
WHERE id IN (SELECT value FROM json_each(@ids)) AND batch_id IS NOT NULL;

-- name: tally
UPDATE batch SET succeeded = succeeded + @succeeded, failed = failed + @failed, cancelled = cancelled + @cancelled,
    rolled_back = rolled_back + @rolled_back, rollback_failed = rollback_failed + @rollback_failed,
    rolling_back = rolling_back + @rolling_back,
    failures = failures + @failures, attempts = attempts + @attempts
WHERE id = @batch;
