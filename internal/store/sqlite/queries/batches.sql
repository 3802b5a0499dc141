-- name: list_batches
-- {where} are the conditions of a filter, or that it is one batch. The columns are in the order of scanBatch.
SELECT id, name, state, on_failure, sealed, stopping, round, total, live, waiting, running, rolling_back, succeeded,
    failed, cancelled,
    rolled_back, rollback_failed, failures, progress, finish_type, labels, created_by, created_at, ended_at, operation, requested_by,
    (SELECT refused FROM operation WHERE operation.batch_id = batches.id AND task_id IS NULL ORDER BY operation.id DESC LIMIT 1)
FROM batches WHERE {where}
ORDER BY id DESC LIMIT @limit;

-- name: batch_exists
SELECT EXISTS (SELECT 1 FROM batch WHERE id = @id);

-- name: failures
-- What failed in a batch, newest first; of a task that is rolled back because it failed, the error of its run. The indexes:
-- the planner cannot know that nearly all rows of a batch succeed.
SELECT id, error FROM (
    SELECT id, iif(state = 'rolled_back',
        (SELECT error FROM attempt WHERE task_id = t.id AND phase = 'run' ORDER BY fence DESC LIMIT 1), error) AS error
    FROM task_archive AS t INDEXED BY task_archive_batch_unsuccessful
    WHERE batch_id = @batch AND state <> 'succeeded'
        AND ({has_failed of=t.} OR state = 'rollback_failed')
    ORDER BY id DESC LIMIT @limit)
UNION ALL
SELECT id, error FROM (
    SELECT id, (SELECT error FROM attempt WHERE task_id = t.id AND phase = 'run' ORDER BY fence DESC LIMIT 1) AS error
    FROM task AS t INDEXED BY task_batch
    WHERE batch_id = @batch AND state IN ('rollback_pending', 'rollback_running') AND ifnull(cause, '') NOT IN ('succeeded', 'cancelled')
    ORDER BY id DESC LIMIT @limit)
ORDER BY 1 DESC LIMIT @limit;

-- name: count_batch_tasks
-- The tasks of all open batches, in the order of batchTasks.
SELECT ifnull(sum(waiting), 0), ifnull(sum(running), 0), ifnull(sum(rolling_back), 0), ifnull(sum(succeeded), 0),
    ifnull(sum(failed), 0),
    ifnull(sum(cancelled), 0), ifnull(sum(rolled_back), 0), ifnull(sum(rollback_failed), 0)
FROM batches WHERE ended_at IS NULL;
