-- What operators do to tasks and batches: the same functions that applications use, and what the messages about a refusal name.

-- name: standing
SELECT state, type, ifnull(key, ''), ifnull(batch_id, 0), ever_started,
    EXISTS (SELECT 1 FROM operation WHERE task_id = tasks.id AND ended_at IS NULL),
    ({own_rollback of=tasks} OR {type_rollback of=tasks})
FROM tasks WHERE id = @id;

-- name: cancel
INSERT INTO cancel (id, by) VALUES (@id, @by);

-- name: cancel_answer
SELECT answer FROM cancel WHERE id = @id;

-- name: retry
INSERT INTO retry (id, by, payload) VALUES (@id, @by, @payload);

-- name: is_chunk
SELECT EXISTS (SELECT 1 FROM chunk_range WHERE task_id = @id);

-- name: retry_answer
SELECT answer FROM retry WHERE id = @id;

-- name: rollback
INSERT INTO rollback (id, by) VALUES (@id, @by);

-- name: rollback_answer
SELECT answer FROM rollback WHERE id = @id;

-- name: batch_request
SELECT ifnull(requested, '') FROM batch WHERE id = @id AND ended_at IS NULL;

-- name: seal_batch
INSERT INTO seal_batch (id) VALUES (@id);

-- name: seal_batch_answer
SELECT answer FROM seal_batch WHERE id = @id;

-- name: cancel_batch
INSERT INTO cancel_batch (id, by) VALUES (@id, @by);

-- name: cancel_batch_answer
SELECT answer FROM cancel_batch WHERE id = @id;

-- name: retry_batch
INSERT INTO retry_batch (id, by) VALUES (@id, @by);

-- name: retry_batch_answer
SELECT answer FROM retry_batch WHERE id = @id;

-- name: rollback_batch
INSERT INTO rollback_batch (id, by, force) VALUES (@id, @by, @force);

-- name: rollback_batch_answer
SELECT answer FROM rollback_batch WHERE id = @id;

-- name: batch_remains
-- How many of a batch's tasks have expired, and whether it is being rolled back.
SELECT total, removed, ended_at IS NULL AND requested IS 'rollback' FROM batch WHERE id = @id;

-- name: can_roll_back
-- Whether a task of a type can be rolled back; 0: any.
SELECT EXISTS (SELECT 1 FROM rollback_policy WHERE type = @type)
    OR EXISTS (SELECT 1 FROM rollback_policy WHERE hash = (SELECT policy FROM tasks WHERE id = @id));

-- name: batch_can_roll_back
-- Whether a task of a batch can be rolled back, by those that are looked at. Where there may be more, and any policy has a rollback, one may.
WITH looked (type, policy) AS MATERIALIZED (
    SELECT type, policy FROM (SELECT type, policy FROM task WHERE batch_id = @id LIMIT @most)
    UNION ALL
    SELECT type, policy FROM (SELECT type, policy FROM task_archive WHERE batch_id = @id LIMIT @most)
), kinds AS MATERIALIZED (
    SELECT DISTINCT type, policy FROM looked
)
SELECT EXISTS (SELECT 1 FROM kinds WHERE {own_rollback of=kinds} OR {type_rollback of=kinds})
    OR (SELECT count(*) FROM looked) >= @most AND EXISTS (SELECT 1 FROM rollback_policy);
