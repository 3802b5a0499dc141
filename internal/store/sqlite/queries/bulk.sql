-- Changes of all tasks that match a filter.

-- name: start_bulk
-- The tasks that it looks at are bounded by their ids: where the filter names a batch, by those of its tasks.
INSERT INTO bulk_change (verb, filter, requested_by, reason, from_id, after_id, up_to)
SELECT @verb, @filter, @by, @reason, low, low, high
FROM (
    SELECT 0 AS low, max(ifnull((SELECT max(id) FROM task), 0), ifnull((SELECT max(id) FROM task_archive), 0),
        ifnull((SELECT max(id) FROM follow), 0)) AS high
    WHERE @batch = 0
    UNION ALL
    SELECT ifnull(min(ifnull(live.low, done.low), ifnull(done.low, live.low)) - 1, 0), max(ifnull(live.high, 0), ifnull(done.high, 0))
    FROM (SELECT min(id) AS low, max(id) AS high FROM task WHERE batch_id = @batch) AS live,
        (SELECT min(id) AS low, max(id) AS high FROM task_archive WHERE batch_id = @batch) AS done
    WHERE @batch <> 0)
RETURNING id;

-- name: batch_span
-- Returns the bounds of the ids of a batch's tasks; 0: it has none. One look in an index each: with all of them in one select it would read all rows.
SELECT ifnull(min(ifnull(live.low, done.low), ifnull(done.low, live.low)), 0), max(ifnull(live.high, 0), ifnull(done.high, 0))
FROM (SELECT (SELECT min(id) FROM task WHERE batch_id = @batch) AS low, (SELECT max(id) FROM task WHERE batch_id = @batch) AS high) AS live,
    (SELECT (SELECT id FROM task_archive INDEXED BY task_archive_batch WHERE batch_id = @batch ORDER BY id LIMIT 1) AS low,
        (SELECT id FROM task_archive INDEXED BY task_archive_batch WHERE batch_id = @batch ORDER BY id DESC LIMIT 1) AS high) AS done;

-- name: audit_bulk
INSERT INTO audit (requested_by, verb, reason, answer)
SELECT @by, verb, reason, 'bulk change ' || id || @what || substr(iif(@what = ': ', filter, ''), 1, 1000) FROM bulk_change WHERE id = @id;

-- name: stop_bulk
UPDATE bulk_change SET stopped = 1, ended_at = @now, version = version + 1 WHERE id = @id AND ended_at IS NULL;

-- name: open_bulks
-- INDEXED BY: the planner cannot know that nearly all have ended. The columns are those of get_bulk.
SELECT id, version, verb, filter, ifnull(requested_by, ''), ifnull(reason, ''), requested_at, from_id, up_to, after_id, again, looked, refused,
    done, skipped, stopped, ended_at
FROM bulk_change INDEXED BY bulk_change_open WHERE ended_at IS NULL AND id > @after ORDER BY id LIMIT @limit;

-- name: get_bulk
SELECT id, version, verb, filter, ifnull(requested_by, ''), ifnull(reason, ''), requested_at, from_id, up_to, after_id, again, looked, refused,
    done, skipped, stopped, ended_at
FROM bulk_change WHERE id = @id;

-- name: look_bulk_live
-- NOT INDEXED, here and below: by id, and by nothing else.
SELECT {bulk_columns of=task finished=NULL}, 0 FROM task NOT INDEXED WHERE id > @after AND id <= @up_to ORDER BY id LIMIT @limit;

-- name: look_bulk_followers
SELECT id, 0, 'pending', type, 0, 0, 0, {type_rollback of=follow}, created_at, NULL, iif(@labels, labels, NULL), '', 0, 0, 1 FROM follow NOT INDEXED WHERE id > @after AND id <= @up_to ORDER BY id LIMIT @limit;

-- name: look_bulk_finished
SELECT {bulk_columns of=task_archive finished=finished_at}, 0 FROM task_archive NOT INDEXED
WHERE id > @after AND id <= @up_to ORDER BY id LIMIT @limit;

-- name: look_bulk_unsuccessful
-- INDEXED BY, here and below: the planner does not know how few they are.
SELECT {bulk_columns of=task_archive finished=finished_at}, 0 FROM task_archive INDEXED BY task_archive_unsuccessful
WHERE state <> 'succeeded' AND id > @after AND id <= @up_to ORDER BY id LIMIT @limit;

-- name: look_bulk_type
SELECT {bulk_columns of=task_archive finished=finished_at}, 0 FROM task_archive INDEXED BY task_archive_type
WHERE type = @type AND id > @after AND id <= @up_to ORDER BY id LIMIT @limit;

-- name: look_bulk_again
SELECT {bulk_columns of=task finished=NULL}, 0 FROM task NOT INDEXED WHERE id IN (SELECT value FROM json_each(@ids))
UNION ALL
SELECT id, 0, 'pending', type, 0, 0, 0, {type_rollback of=follow}, created_at, NULL, iif(@labels, labels, NULL), '', 0, 0, 1 FROM follow NOT INDEXED WHERE id IN (SELECT value FROM json_each(@ids))
UNION ALL
SELECT {bulk_columns of=task_archive finished=finished_at}, 0 FROM task_archive NOT INDEXED WHERE id IN (SELECT value FROM json_each(@ids));

-- name: bulk_seen
SELECT ifnull(requested_by, ''), ifnull(reason, ''), again_until, skipped FROM bulk_change WHERE id = @id AND version = @version AND ended_at IS NULL;

-- name: bulk_live_as
-- Whether a live task is what was seen.
SELECT EXISTS (SELECT 1 FROM task WHERE id = @id AND fence = @fence AND state = @state);

-- name: bulk_finished_as
SELECT EXISTS (SELECT 1 FROM task_archive WHERE id = @id AND fence = @fence AND state = @state);

-- name: bulk_follows
SELECT EXISTS (SELECT 1 FROM follow WHERE id = @id);

-- name: keep_bulk
UPDATE bulk_change SET version = version + 1, after_id = @after, looked = @looked, done = done + @rows, refused = @refused, again = @again,
    again_until = @again_until, skipped = @skipped, ended_at = @ended_at
WHERE id = @id;

-- name: delete_bulks
DELETE FROM bulk_change WHERE id IN (SELECT old.id FROM bulk_change AS old WHERE old.ended_at < @before LIMIT @limit);
