-- The steps of operations: what they are decided on, and how they are applied.

-- name: any_operation
-- INDEXED BY, here and below: the planner cannot know that nearly all operations have ended.
SELECT EXISTS (SELECT 1 FROM operation INDEXED BY operation_open WHERE ended_at IS NULL);

-- name: operations
SELECT id, version, verb, ifnull(batch_id, 0), ifnull(task_id, 0), requested_at, ifnull(requested_by, ''), done, stopped, missed,
    after_at, ifnull(after_id, 0), goal, taken, refused
FROM operation INDEXED BY operation_open
WHERE ended_at IS NULL AND id > @after
    AND (task_id IS NULL OR NOT EXISTS (SELECT 1 FROM task WHERE task.id = task_id AND state = 'running'))
ORDER BY id LIMIT @limit;

-- name: running_of_batch
-- The columns, here and below, are those of store.BatchTask. INDEXED BY: task_due and task_running have the rows of all batches.
SELECT id, fence, state, '', ever_started, NULL, NULL, 0, 0
FROM task INDEXED BY task_batch WHERE batch_id = @batch
    AND state = 'running' AND cancel_requested_at IS NULL LIMIT @limit;

-- name: waiting_of_batch
-- Each of the two parts is a walk along the index; in one, SQLite would sort all rows.
SELECT id, fence, state, '', ever_started, NULL, NULL,
    ever_started AND {own_rollback of=waiting},
    ever_started AND {type_rollback of=waiting}
FROM (
    SELECT id, fence, state, ever_started, policy, type FROM (
        SELECT id, fence, state, ever_started, policy, type FROM task INDEXED BY task_batch
        WHERE batch_id = @batch AND state = 'pending' AND id > @after ORDER BY id LIMIT @limit)
    UNION ALL
    SELECT id, fence, state, ever_started, policy, type FROM (
        SELECT id, fence, state, ever_started, policy, type FROM task INDEXED BY task_batch
        WHERE batch_id = @batch AND state = 'retry_pending' AND id > @after ORDER BY id LIMIT @limit)
    ORDER BY id LIMIT @limit) AS waiting;

-- name: left_of_batch
-- How many tasks of a batch run or wait to run, and how many it has.
SELECT total - succeeded - failed - cancelled - rolled_back - rollback_failed - rolling_back, total FROM batch
    WHERE id = @batch;

-- name: failed_of_batch
-- INDEXED BY: the planner cannot know that nearly all tasks succeed.
SELECT id, fence, state, ifnull(cause, ''), ever_started, started_at, finished_at, 0, 0
FROM task_archive INDEXED BY task_archive_batch_unsuccessful
WHERE batch_id = @batch AND state <> 'succeeded' AND id > @after_id AND state IN ('failed', 'rolled_back')
ORDER BY id LIMIT @limit;

-- name: finished_of_batch
-- The finished tasks of a batch, newest started first. Those that never started come last. INDEXED BY: it is that order, and a
-- batch may have a million tasks to sort.
SELECT id, fence, state, ifnull(cause, ''), ever_started, started_at, finished_at,
    {own_rollback of=task_archive},
    {type_rollback of=task_archive}
FROM task_archive INDEXED BY task_archive_started
WHERE batch_id = @batch AND ifnull(started_at, '') <= @after_at AND (ifnull(started_at, '') < @after_at OR id > @after_id)
ORDER BY ifnull(started_at, '') DESC, id LIMIT @limit;

-- name: task_to_roll_back
SELECT id, fence, state, ifnull(cause, ''), ever_started, started_at, finished_at,
    {own_rollback of=tasks},
    {type_rollback of=tasks}
FROM tasks WHERE id = @id;

-- name: operation_seen
SELECT stopped FROM operation WHERE id = @id AND version = @version AND ended_at IS NULL;

-- name: keep_operation
UPDATE operation SET version = version + 1, stopped = @stopped, missed = @missed, after_at = @after_at, after_id = @after_id,
    goal = @goal, taken = @taken, done = done + @rows, refused = @refused, ended_at = @ended_at
WHERE id = @id;

-- name: request_cancels
-- @rows, here and below: a JSON list of lists, which begin with the id and the fence of a task. NOT INDEXED, too: the planner must
-- not prefer an index on the state to the ids.
UPDATE task NOT INDEXED SET cancel_requested_at = @now, cancel_requested_by = @by
FROM json_each(@rows)
WHERE task.id = json_extract(json_each.value, '$[0]')
    AND task.fence = json_extract(json_each.value, '$[1]') AND task.state = 'running' AND task.cancel_requested_at IS NULL;

-- name: wake_for_cancel
UPDATE wakeup SET cancel = cancel + 1;

-- name: count_waiting
SELECT count(*) FROM json_each(@rows) CROSS JOIN task NOT INDEXED
WHERE task.id = json_extract(json_each.value, '$[0]')
    AND task.fence = json_extract(json_each.value, '$[1]') AND task.state IN ('pending', 'retry_pending');

-- name: cancel_waiting
INSERT INTO cancel_waiting (id, by, rollback)
SELECT task.id, @by, json_extract(json_each.value, '$[2]') FROM json_each(@rows) CROSS JOIN task NOT INDEXED
WHERE task.id = json_extract(json_each.value, '$[0]')
    AND task.fence = json_extract(json_each.value, '$[1]') AND task.state IN ('pending', 'retry_pending');

-- name: any_unstopped
SELECT EXISTS (
    SELECT 1 FROM task INDEXED BY task_batch WHERE batch_id = @batch AND state IN ('pending', 'retry_pending', 'running'));

-- name: count_finished
SELECT count(*) FROM json_each(@rows) CROSS JOIN task_archive NOT INDEXED
WHERE task_archive.id = json_extract(json_each.value, '$[0]') AND task_archive.fence = json_extract(json_each.value, '$[1]');

-- name: revive
-- @rows have the due time, too.
INSERT INTO revive (id, verb, run_at)
SELECT task_archive.id, @verb, json_extract(json_each.value, '$[2]') FROM json_each(@rows) CROSS JOIN task_archive NOT INDEXED
WHERE task_archive.id = json_extract(json_each.value, '$[0]') AND task_archive.fence = json_extract(json_each.value, '$[1]');

-- name: reopen_batch_of
INSERT INTO reopen_batch (id) SELECT batch_id FROM task WHERE id = @id;
