-- name: look_plan
-- A chunk plan with its newest pass, and how many of its chunks have not finished.
SELECT p.task, p.table_name, p.key_name, p.size_start, p.size_min, p.size_max, p.target_us, p.ahead, p.follow_us, p.version,
    (p.paused_at IS NOT NULL OR {chunk_stopped}), p.pass, s.pass IS NOT NULL AND s.sealed_at IS NULL, ifnull(s.whole, 0),
    s.from_key, s.through_key, p.high, ifnull(s.chunks, 0), ifnull(s.cost_us, 0), p.over, p.grow_at, p.repeat_at, p.rest_us,
    p.size, p.per_row, p.sampled, p.holder, p.held_until, p.done_rows, p.done_us, ifnull(s.sizes, ''),
    (SELECT count(*) FROM chunk_range AS c INDEXED BY chunk_range_place JOIN task AS t ON t.id = c.task_id
        WHERE c.plan = p.name AND c.state <> 'over'),
    iif(s.whole AND s.sealed_at IS NULL, max(
        (SELECT ifnull(max(w.pass) FILTER (WHERE w.whole), iif(count(*) = @back, min(w.pass), 0)) FROM (
            SELECT e.pass, e.whole FROM chunk_pass AS e WHERE e.plan = p.name AND e.pass < p.pass ORDER BY e.pass DESC LIMIT @back) AS w),
        -- of those that have planned nothing, and so are not listed, the ranges that they have skipped
        ifnull((SELECT max(c.pass) FROM chunk_range AS c INDEXED BY chunk_range_place
            WHERE c.plan = p.name AND c.state <> 'over' AND c.pass < p.pass AND c.pass <> c.planned), 0)), 0)
FROM chunk_plan AS p
LEFT JOIN chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
LEFT JOIN batch AS b ON b.id = s.batch_id
WHERE p.name = @name;

-- name: chunk_obstacles
-- Ranges of the passes before one whose tasks have not finished, or have failed, pass by pass, in their order.
SELECT c.task_id, c.pass, c.after_key, c.through_key, c.rows, c.failures, t.id IS NOT NULL, c.state, a.state, a.cause
FROM chunk_range AS c INDEXED BY chunk_range_place
LEFT JOIN task AS t ON t.id = c.task_id
LEFT JOIN task_archive AS a ON a.id = c.task_id AND t.id IS NULL
WHERE c.plan = @name AND c.state <> 'over' AND c.pass < @below
  AND (t.id IS NOT NULL OR a.state IS NULL AND c.state = 'failed' OR {chunk_failed})
ORDER BY c.plan, c.pass, c.step, c.item, c.part LIMIT @limit;

-- name: lock_plan
-- A plan that has the version that was seen and may be planned: what a step continues.
SELECT p.task, p.table_name, p.key_name, p.pass, s.pass IS NOT NULL AND s.sealed_at IS NULL, s.through_key, s.batch_id
FROM chunk_plan AS p
LEFT JOIN chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
LEFT JOIN batch AS b ON b.id = s.batch_id
WHERE p.name = @name AND p.version = @version AND NOT (p.paused_at IS NOT NULL OR {chunk_stopped});

-- name: finished_chunks
-- Open chunks whose tasks have finished.
SELECT c.task_id, c.rows, a.state, a.cause, a.started_at, a.finished_at
FROM chunk_range AS c INDEXED BY chunk_range_place JOIN task_archive AS a ON a.id = c.task_id
WHERE c.plan = @name AND c.state <> 'over' AND c.state = 'open' LIMIT @limit;

-- name: note_chunk
UPDATE chunk_range SET state = @state WHERE task_id = @id;

-- name: chunk_standing
-- What a range is: noted, whether its task is live, and how that has finished.
SELECT c.state, EXISTS (SELECT 1 FROM task AS t WHERE t.id = c.task_id), a.state, a.cause
FROM chunk_range AS c LEFT JOIN task_archive AS a ON a.id = c.task_id WHERE c.task_id = @id AND c.plan = @name;

-- name: skip_chunk
-- Has a range stay an obstacle, from now on of this pass.
UPDATE chunk_range SET pass = @pass, step = @step, item = @item, part = '' WHERE task_id = @id AND plan = @name;

-- name: insert_chunk_task
INSERT INTO task (type, payload, batch_id, created_by, run_at, created_at) VALUES (@type, @payload, @batch, @by, @now, @now) RETURNING id;

-- name: insert_chunk
INSERT INTO chunk_range (task_id, plan, pass, planned, step, item, after_key, through_key, rows, failures)
VALUES (@id, @name, @pass, @pass, @step, @item, @after, @through, @rows, @failures);

-- name: put_pass
INSERT INTO chunk_pass (plan, pass, whole, from_key, through_key, ranges, chunks, rows, cost_us, sizes, first_key, last_key,
    batch_id, began_at, sealed_at)
VALUES (@name, @pass, @whole, @from, @through, @ranges, @chunks, @rows, @cost, @sizes, @first, @last, @batch, @now,
    iif(@sealed, @now, NULL))
ON CONFLICT (plan, pass) DO UPDATE SET
    through_key = excluded.through_key, ranges = ranges + excluded.ranges, chunks = chunks + excluded.chunks,
    rows = rows + excluded.rows, cost_us = excluded.cost_us, sizes = excluded.sizes,
    batch_id = excluded.batch_id, sealed_at = excluded.sealed_at;

-- name: forget_empty_pass
DELETE FROM chunk_pass WHERE plan = @name AND pass = @pass AND sealed_at IS NOT NULL AND chunks = 0;

-- name: move_plan
UPDATE chunk_plan SET
    version = @version, pass = @pass, high = @high, over = @over, grow_at = @grow_at, repeat_at = @repeat_at, rest_us = @rest,
    size = @size, per_row = @per_row, sampled = @sampled, holder = @holder, held_until = @held_until, done_rows = done_rows + @done_rows,
    done_us = done_us + @done_us
WHERE name = @name;

-- name: chunk_task
-- A live chunk whose batch does not stop, and how often it stalled or timed out.
SELECT p.name, p.table_name, p.key_name, c.after_key, c.through_key, c.rows,
    (SELECT count(*) FROM attempt AS a WHERE a.task_id = c.task_id AND a.phase = 'run' AND a.outcome IN ('stalled', 'timed_out'))
FROM chunk_range AS c JOIN task AS t ON t.id = c.task_id JOIN chunk_plan AS p ON p.name = c.plan
LEFT JOIN batch AS b ON b.id = t.batch_id
WHERE c.task_id = @id AND c.state = 'open' AND NOT ifnull(b.stopping, 0);

-- name: split_chunk
-- Ends the chunk of a row that is held, unless its batch stops, and returns what its halves need to know of it.
UPDATE chunk_range SET state = 'over'
WHERE task_id = @id AND state = 'open' AND EXISTS (
    SELECT 1 FROM task AS t JOIN batch AS b ON b.id = t.batch_id AND NOT b.stopping
    WHERE t.id = chunk_range.task_id AND t.fence = @fence AND t.session = @session AND t.state = 'running'
      AND (t.cancel_requested_at IS NULL OR @cancel_seen))
RETURNING plan, planned, part, after_key, through_key;

-- name: split_plan
-- Steps that saw the chunk as it was do not apply any more.
UPDATE chunk_plan SET version = version + 1 WHERE name = @name RETURNING table_name, key_name;

-- name: insert_half_task
-- The task of a half of a chunk. It goes on where that ended, so it has a fence: without one the trigger would refuse a row of a
-- sealed batch.
INSERT INTO task (
    type, run_at, payload, fence, ever_started, policy, lease_until, deadline, priority, region, batch_id, round, rollback_payload,
    labels, traceparent, created_by, max_attempts, created_at)
SELECT type, max(@now, ifnull(lease_until, '')), @payload, 1, @ever_started, policy, lease_until, deadline, priority, ifnull(spilled_from, region),
    batch_id, round, rollback_payload, labels, traceparent, created_by, max_attempts, @now
FROM task WHERE id = @id
RETURNING id;

-- name: insert_half
INSERT INTO chunk_range (task_id, plan, pass, planned, step, item, part, after_key, through_key, rows, failures)
SELECT @half, plan, pass, planned, step, item, @part, @after, @through, @rows, failures FROM chunk_range WHERE task_id = @id;

-- name: count_split
-- Two tasks more, and one less.
UPDATE batch SET total = total + 1 WHERE id = (SELECT batch_id FROM task WHERE task.id = @id);

-- name: note_failed_chunks
-- Notes which of the open chunks have failed, before their tasks are removed: else a step does, but a plan may have no more of them.
UPDATE chunk_range SET state = 'failed' WHERE task_id IN (
    SELECT c.task_id FROM chunk_range AS c INDEXED BY chunk_range_place JOIN task_archive AS a ON a.id = c.task_id
    WHERE c.state <> 'over' AND c.state = 'open' AND {chunk_failed});

-- name: delete_chunks
-- Chunks whose batch is gone, but those that have failed: a later pass must know them.
DELETE FROM chunk_range WHERE task_id IN (
    SELECT o.task_id FROM chunk_pass AS s JOIN chunk_range AS o ON o.plan = s.plan AND o.planned = s.pass AND o.state <> 'failed'
    WHERE s.sealed_at < @before AND NOT EXISTS (SELECT 1 FROM batch WHERE batch.id = s.batch_id)
      AND NOT EXISTS (SELECT 1 FROM task WHERE task.id = o.task_id)
    LIMIT @limit);

-- name: put_chunk_declarations
-- Stores declarations that were never loaded before.
INSERT INTO chunk_declaration (name, hash, spec)
SELECT json_extract(json_each.value, '$[0]'), json_extract(json_each.value, '$[1]'), json_extract(json_each.value, '$[2]')
FROM json_each(@list) WHERE true
ON CONFLICT (name, hash) DO NOTHING;

-- name: forget_chunk_declarers
-- Forgets what a session no longer declares, and what sessions declared that are not known.
DELETE FROM chunk_declarer WHERE session = @session AND number NOT IN (
        SELECT chunk_declaration.number FROM json_each(@list) CROSS JOIN chunk_declaration
        WHERE chunk_declaration.name = json_extract(json_each.value, '$[0]')
          AND chunk_declaration.hash = json_extract(json_each.value, '$[1]'))
    OR session NOT IN (SELECT agent.session FROM agent);

-- name: put_chunk_declarers
INSERT INTO chunk_declarer (session, number)
SELECT @session, chunk_declaration.number FROM json_each(@list) CROSS JOIN chunk_declaration
WHERE chunk_declaration.name = json_extract(json_each.value, '$[0]')
  AND chunk_declaration.hash = json_extract(json_each.value, '$[1]')
ON CONFLICT (session, number) DO NOTHING;

-- name: insert_declared_chunks
-- Inserts plans that present sessions declare and that do not exist, each as the one who came first declares it.
INSERT INTO chunk_plan (name, declared, task, table_name, key_name, size_start, size_min, size_max, target_us, ahead, follow_us, source)
SELECT d.name, d.number, json_extract(d.spec, '$.task'), json_extract(d.spec, '$.table'), json_extract(d.spec, '$.key'),
    json_extract(d.spec, '$.size_start'), json_extract(d.spec, '$.size_min'), json_extract(d.spec, '$.size_max'),
    json_extract(d.spec, '$.target_us'), json_extract(d.spec, '$.ahead'), json_extract(d.spec, '$.follow_us'),
    json_extract(d.spec, '$.source')
FROM (
    SELECT min(e.number) AS number FROM agent JOIN chunk_declarer AS r ON r.session = agent.session
    JOIN chunk_declaration AS e ON e.number = r.number WHERE agent.present_until > @now GROUP BY e.name
) AS first JOIN chunk_declaration AS d ON d.number = first.number
WHERE true
ON CONFLICT (name) DO NOTHING;

-- name: settle_chunks
-- Puts the newest declaration of present sessions in force that has the plan's task, table and key. A plan that follows from now
-- on is not over.
UPDATE chunk_plan SET
    version = chunk_plan.version + 1, declared = d.number, size_start = json_extract(d.spec, '$.size_start'),
    size_min = json_extract(d.spec, '$.size_min'), size_max = json_extract(d.spec, '$.size_max'),
    target_us = json_extract(d.spec, '$.target_us'), ahead = json_extract(d.spec, '$.ahead'),
    follow_us = json_extract(d.spec, '$.follow_us'), source = json_extract(d.spec, '$.source'), size = 0,
    over = chunk_plan.over AND json_extract(d.spec, '$.follow_us') = 0
FROM (
    SELECT e.name AS name, max(e.number) AS number FROM agent JOIN chunk_declarer AS r ON r.session = agent.session
    JOIN chunk_declaration AS e ON e.number = r.number
    JOIN chunk_plan AS q ON q.name = e.name AND q.task = json_extract(e.spec, '$.task')
        AND q.table_name = json_extract(e.spec, '$.table') AND q.key_name = json_extract(e.spec, '$.key')
    WHERE agent.present_until > @now GROUP BY e.name
) AS newest JOIN chunk_declaration AS d ON d.number = newest.number
WHERE chunk_plan.name = newest.name AND chunk_plan.declared <> newest.number;

-- name: declared_chunks
-- What became of what a session declares: the plan's name, whether that is in force, and whether it is refused.
SELECT d.name, p.declared = d.number, p.task <> json_extract(d.spec, '$.task') OR p.table_name <> json_extract(d.spec, '$.table')
    OR p.key_name <> json_extract(d.spec, '$.key')
FROM chunk_declarer AS r JOIN chunk_declaration AS d ON d.number = r.number JOIN chunk_plan AS p ON p.name = d.name
WHERE r.session = @session ORDER BY d.name;
