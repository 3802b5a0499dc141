-- The steps of operations.

-- name: any_operation
-- INDEXED BY, here and below: the planner cannot know that nearly all operations have ended.
SELECT EXISTS (SELECT 1 FROM operation INDEXED BY operation_open WHERE ended_at IS NULL);

-- name: operations
SELECT id, verb, ifnull(batch_id, 0), ifnull(task_id, 0), ifnull(requested_by, ''), done, refused, stopped, ifnull(after_id, 0),
    ifnull(after_at, '~'), ifnull(since, ''), ifnull(goal, 0), taken
FROM operation INDEXED BY operation_open WHERE ended_at IS NULL ORDER BY id;

-- name: keep_operation
UPDATE operation SET done = @done, refused = @refused, stopped = @stopped, after_id = @after_id, after_at = @after_at, since = @since,
    goal = @goal, taken = @taken, ended_at = @ended_at
WHERE id = @id;

-- name: waiting_of_batch
-- INDEXED BY, here and below: task_due and task_running have the rows of all batches.
SELECT id FROM task INDEXED BY task_batch WHERE batch_id = @batch AND state IN ('pending', 'retry_pending') LIMIT @limit;

-- name: cancel_waiting
INSERT INTO cancel_waiting (id, by, rollback) SELECT value, @by, @rollback FROM json_each(@ids);

-- name: request_cancel
UPDATE task SET cancel_asked = @now, cancel_by = @by
WHERE id IN (
    SELECT id FROM task INDEXED BY task_batch WHERE batch_id = @batch AND state = 'running' AND cancel_asked IS NULL LIMIT @limit);

-- name: wake_for_cancel
UPDATE wakeup SET cancel = cancel + 1;

-- name: any_unstopped
SELECT EXISTS (
    SELECT 1 FROM task INDEXED BY task_batch WHERE batch_id = @batch AND state IN ('pending', 'retry_pending', 'running'));

-- name: failed_of_batch
-- What a retry of a batch revives, by id. INDEXED BY: the planner cannot know that nearly all tasks succeed.
SELECT id FROM task_archive INDEXED BY task_archive_batch_unsuccessful
WHERE batch_id = @batch AND state <> 'succeeded' AND id > @after_id
    AND (state = 'failed' OR state = 'rolled_back' AND cause NOT IN ('succeeded', 'cancelled'))
ORDER BY id LIMIT @limit;

-- name: count_finished
SELECT succeeded + failed + cancelled FROM batch WHERE id = @batch;

-- name: finished_of_batch
-- The finished tasks of a batch, newest started first, and which of them can be rolled back. Those that never started come
-- last. INDEXED BY: it is that order, and a batch may have a million tasks to sort.
SELECT id, ifnull(started_at, ''), state IN ('succeeded', 'failed', 'cancelled') AND ever_started
    AND (EXISTS (SELECT 1 FROM rollback_policy WHERE hash = task_archive.policy)
        OR EXISTS (SELECT 1 FROM rollback_policy WHERE type = task_archive.type))
FROM task_archive INDEXED BY task_archive_started
WHERE batch_id = @batch AND ifnull(started_at, '') <= @after_at AND (ifnull(started_at, '') < @after_at OR id > @after_id)
ORDER BY ifnull(started_at, '') DESC, id LIMIT @limit;

-- name: revive
-- @rows: a JSON list of [id, run_at].
INSERT INTO revive (id, verb, run_at)
SELECT json_extract(value, '$[0]'), @verb, json_extract(value, '$[1]') FROM json_each(@rows);

-- name: count_revived
SELECT count(*) FROM task WHERE id IN (SELECT json_extract(value, '$[0]') FROM json_each(@rows));

-- name: task_to_roll_back
-- The state of a task, and whether it can be rolled back now.
SELECT state, state IN ('succeeded', 'failed', 'cancelled') AND ever_started
    AND (EXISTS (SELECT 1 FROM rollback_policy WHERE hash = tasks.policy)
        OR EXISTS (SELECT 1 FROM rollback_policy WHERE type = tasks.type))
FROM tasks WHERE id = @id;

-- name: reopen_batch_of
INSERT INTO reopen_batch (id) SELECT batch_id FROM task WHERE id = @id;
