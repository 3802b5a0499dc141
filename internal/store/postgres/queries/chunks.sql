-- name: look_plan
-- Returns a chunk plan with its newest pass, how many of its chunks have not finished, and the store's clock. It locks nothing.
SELECT now() AS at, p.task, p.table_name, p.key_name, p.size_start, p.size_min, p.size_max, p.target_us, p.ahead, p.follow_us,
    p.version, (p.paused_at IS NOT NULL OR {chunk_stopped}) AS halted, p.pass,
    s.pass IS NOT NULL AND s.sealed_at IS NULL AS planning, coalesce(s.whole, false), s.from_key, s.through_key, p.high,
    coalesce(s.chunks, 0), coalesce(s.cost_us, 0), p.over, p.grow_at, p.repeat_at, p.rest_us, p.size, p.per_row,
    p.sampled, coalesce(p.holder, ''), p.held_until, p.done_rows, p.done_us, coalesce(s.sizes, '') AS sizes,
    (SELECT count(*) FROM {open_chunks} AS c JOIN {schema}.task AS t ON t.id = c.task_id) AS live,
    CASE WHEN s.whole AND s.sealed_at IS NULL THEN greatest(
        (SELECT coalesce(max(w.pass) FILTER (WHERE w.whole), CASE WHEN count(*) = @back::integer THEN min(w.pass) END) FROM (
            SELECT e.pass, e.whole FROM {schema}.chunk_pass AS e WHERE e.plan = p.name AND e.pass < p.pass
            ORDER BY e.pass DESC LIMIT @back::integer) AS w),
        -- of those that have planned nothing, and so are not listed, the ranges that they have skipped
        (SELECT max(c.pass) FROM {schema}.chunk_range AS c WHERE c.plan = p.name AND c.state = 'open'
            AND (c.pass, c.step) >= (p.open_pass, p.open_step) AND c.pass < p.pass AND c.pass <> c.planned),
        (SELECT max(c.pass) FROM {schema}.chunk_range AS c WHERE c.plan = p.name AND c.state IN ('failed', 'reopened')
            AND c.pass < p.pass AND c.pass <> c.planned)) END AS last_whole
FROM {schema}.chunk_plan AS p
LEFT JOIN {schema}.chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
LEFT JOIN {schema}.batch AS b ON b.id = s.batch_id
WHERE p.name = @name

-- name: chunk_obstacles
-- Returns ranges of the passes before one whose tasks have not finished, or have failed, pass by pass, in their order.
-- The low-water mark is asked for column by column: by a join or as a row the planner would not begin with it.
SELECT o.task_id, o.pass, o.after_key, o.through_key, o.rows, o.failures, o.live, o.noted, o.state, o.cause
FROM ((
    SELECT {chunk_obstacle}
      AND c.state = 'open' AND (c.pass, c.step) >= (
        (SELECT p.open_pass FROM {schema}.chunk_plan AS p WHERE p.name = @name),
        (SELECT p.open_step FROM {schema}.chunk_plan AS p WHERE p.name = @name))
    ORDER BY c.pass, c.step, c.item, c.part LIMIT @limit
) UNION ALL (
    SELECT {chunk_obstacle}
      AND c.state IN ('failed', 'reopened')
    ORDER BY c.pass, c.step, c.item, c.part LIMIT @limit
)) AS o
ORDER BY o.pass, o.step, o.item, o.part LIMIT @limit

-- name: lock_plan
-- Locks a plan that has the version that was seen and may be planned, and returns what a step continues.
SELECT p.task, p.table_name, p.key_name, p.pass, s.pass IS NOT NULL AND s.sealed_at IS NULL, s.through_key, coalesce(s.batch_id, 0)
FROM {schema}.chunk_plan AS p
LEFT JOIN {schema}.chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
LEFT JOIN {schema}.batch AS b ON b.id = s.batch_id
WHERE p.name = @name AND p.version = @version AND NOT (p.paused_at IS NOT NULL OR {chunk_stopped})
FOR UPDATE OF p

-- name: finished_chunks
-- Returns chunks whose tasks have finished and stay so until the transaction ends: of those that are open some, the ranges of
-- @ids (of the same plan) first.
SELECT c.task_id, c.rows, a.state, coalesce(a.cause, ''),
    coalesce(extract(epoch FROM a.finished_at - coalesce(a.started_at, a.finished_at)) * 1000000, 0)::bigint, c.state
FROM {schema}.chunk_plan AS p
CROSS JOIN LATERAL (
    SELECT r.task_id, r.rows, r.state, r.pass, r.step, r.item, r.part FROM {schema}.chunk_range AS r
    WHERE r.task_id = ANY (@ids::bigint[]) AND r.plan = p.name AND r.state = 'failed'
    UNION ALL {open_chunks}
) AS c
CROSS JOIN LATERAL (
    SELECT r.state, r.cause, r.finished_at, r.started_at FROM {schema}.task_archive AS r WHERE r.id = c.task_id
    FOR KEY SHARE SKIP LOCKED
) AS a
WHERE p.name = @name
ORDER BY c.task_id = ANY (@ids::bigint[]) DESC, c.pass, c.step, c.item, c.part LIMIT @limit

-- name: chunk_tasks_left
-- Of how many tasks there is a row.
SELECT count(*) FROM unnest(@ids::bigint[]) AS g (id)
WHERE EXISTS (SELECT FROM {schema}.task AS t WHERE t.id = g.id)
   OR EXISTS (SELECT FROM {schema}.task_archive AS a WHERE a.id = g.id)
   OR NOT EXISTS (SELECT FROM {schema}.chunk_range AS c WHERE c.task_id = g.id AND c.state = 'failed')

-- name: note_chunks
UPDATE {schema}.chunk_range AS c SET state = n.state
FROM unnest(@ids::bigint[], @states::text[]) AS n (id, state) WHERE c.task_id = n.id AND c.state <> n.state

-- name: skip_chunks
-- Has ranges stay obstacles, from now on of this pass.
UPDATE {schema}.chunk_range AS c SET pass = @pass, step = @step, item = n.item, part = ''
FROM unnest(@ids::bigint[], @items::integer[]) AS n (id, item) WHERE c.task_id = n.id AND c.plan = @name

-- name: chunk_batch
INSERT INTO {schema}.batch (name, sealed, created_by) VALUES (@name, false, @by) RETURNING id

-- name: insert_chunk_tasks
-- Rows get their ids in the order in which they are inserted.
INSERT INTO {schema}.task (type, payload, batch_id, created_by)
SELECT @type, w.payload::jsonb, @batch::bigint, @by FROM unnest(@payloads::text[]) WITH ORDINALITY AS w (payload, n) ORDER BY w.n
RETURNING id

-- name: insert_chunks
INSERT INTO {schema}.chunk_range (task_id, plan, pass, planned, step, item, after_key, through_key, rows, failures)
SELECT w.id, @name, @pass::integer, @pass::integer, @step, w.item, w.after_key, w.through_key, w.rows, w.failures
FROM unnest(@ids::bigint[], @items::integer[], @after::text[], @through::text[], @rows::integer[], @failures::integer[])
    AS w (id, item, after_key, through_key, rows, failures)

-- name: put_pass
INSERT INTO {schema}.chunk_pass AS s (plan, pass, whole, from_key, through_key, ranges, chunks, rows, cost_us, sizes, first_key,
    last_key, batch_id, began_at, sealed_at)
VALUES (@name, @pass, @whole, @from::text, @through::text, @ranges, @chunks, @rows, @cost, @sizes, @first::text, @last::text,
    nullif(@batch::bigint, 0), now(), CASE WHEN @sealed THEN now() END)
ON CONFLICT (plan, pass) DO UPDATE SET
    through_key = excluded.through_key, ranges = s.ranges + excluded.ranges, chunks = s.chunks + excluded.chunks,
    rows = s.rows + excluded.rows, cost_us = excluded.cost_us, sizes = excluded.sizes, batch_id = excluded.batch_id,
    sealed_at = excluded.sealed_at

-- name: forget_empty_pass
DELETE FROM {schema}.chunk_pass AS s WHERE s.plan = @name AND s.pass = @pass AND s.sealed_at IS NOT NULL AND s.chunks = 0

-- name: move_plan
-- The low-water mark is the first open chunk, or the step itself where there is none: those of later steps have higher versions.
UPDATE {schema}.chunk_plan AS p SET
    version = @version, pass = @pass, high = @high::text, over = @over, grow_at = @grow_at::timestamptz,
    repeat_at = @repeat_at::timestamptz, rest_us = @rest, size = @size, per_row = @per_row, sampled = @sampled,
    holder = nullif(@holder::text, ''), held_until = @held_until::timestamptz,
    done_rows = p.done_rows + @done_rows, done_us = p.done_us + @done_us,
    (open_pass, open_step) = (
        SELECT coalesce(max(o.pass), @pass), coalesce(max(o.step), @version)
        FROM (SELECT c.pass, c.step FROM {schema}.chunk_range AS c
            WHERE c.plan = @name AND c.state = 'open' AND (c.pass, c.step) >= (p.open_pass, p.open_step)
            ORDER BY c.pass, c.step LIMIT 1) AS o)
WHERE p.name = @name

-- name: chunk_task
-- Returns a live chunk whose batch does not stop, and how often it stalled or timed out.
SELECT p.name, p.table_name, p.key_name, c.after_key, c.through_key, c.rows,
    (SELECT count(*) FROM {schema}.attempt AS a
        WHERE a.task_id = c.task_id AND a.phase = 'run' AND a.outcome IN ('stalled', 'timed_out'))
FROM {schema}.chunk_range AS c
JOIN {schema}.task AS t ON t.id = c.task_id
JOIN {schema}.chunk_plan AS p ON p.name = c.plan
LEFT JOIN {schema}.batch AS b ON b.id = t.batch_id
WHERE c.task_id = @id AND c.state IN ('open', 'reopened') AND NOT coalesce(b.stopping, false)

-- name: split_plan
-- Locks the plan of a chunk that is split, without waiting for an application's transaction: where that has it locked, there is no name. Steps that
-- saw the chunk as it was do not apply any more.
WITH chunk AS MATERIALIZED (
    SELECT c.plan FROM {schema}.chunk_range AS c WHERE c.task_id = @id AND c.state IN ('open', 'reopened')
), locked AS MATERIALIZED (
    SELECT p.name FROM {schema}.chunk_plan AS p WHERE p.name = (SELECT c.plan FROM chunk AS c) FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    UPDATE {schema}.chunk_plan AS p SET version = p.version + 1 WHERE p.name = (SELECT l.name FROM locked AS l)
    RETURNING p.name, p.table_name, p.key_name
)
SELECT p.name, p.table_name, p.key_name FROM chunk AS c LEFT JOIN changed AS p ON true

-- name: split_chunk
-- Ends a chunk that is split, unless its batch stops, and returns what its halves need to know of it. The lock on the batch is that
-- of admit_to_batch, which would not admit rows to a batch that is sealed.
WITH open AS MATERIALIZED (
    SELECT b.id FROM {schema}.task_archive AS a JOIN {schema}.batch AS b ON b.id = a.batch_id
    WHERE a.id = @id AND NOT b.stopping FOR KEY SHARE OF b
), counted AS ( -- two tasks more, and one less
    INSERT INTO {schema}.batch_delta (batch_id, total) SELECT o.id, 1 FROM open AS o
)
UPDATE {schema}.chunk_range AS c SET state = 'over' FROM open AS o WHERE c.task_id = @id AND c.state IN ('open', 'reopened')
RETURNING c.planned, c.part, c.after_key, c.through_key

-- name: insert_half_tasks
-- Inserts the tasks of the halves of a chunk. They go on where it ended, so they have a fence: without one the trigger would refuse
-- rows of a sealed batch. Rows get their ids in the order in which they are inserted. split_chunk has counted them.
WITH half AS (
    INSERT INTO {schema}.task (
        type, run_at, payload, fence, ever_started, policy, lease_until, deadline, priority, region, batch_id, round, rollback_payload,
        labels, traceparent, created_by, max_attempts)
    SELECT a.type, greatest(now(), a.lease_until), w.payload::jsonb, 1, a.ever_started, a.policy, a.lease_until, a.deadline, a.priority,
        a.region, a.batch_id, a.round, a.rollback_payload, a.labels, a.traceparent, a.created_by, a.max_attempts
    FROM {schema}.task_archive AS a, unnest(@payloads::text[]) WITH ORDINALITY AS w (payload, n)
    WHERE a.id = @id ORDER BY w.n
    RETURNING id, batch_id
), counted AS (
    INSERT INTO {schema}.batch_delta (batch_id, first_id, last_id)
    SELECT h.batch_id, min(h.id), max(h.id) FROM half AS h WHERE h.batch_id IS NOT NULL GROUP BY h.batch_id
)
SELECT h.id FROM half AS h ORDER BY h.id

-- name: insert_halves
-- Halves have the place of the chunk, which may have been reopened itself.
INSERT INTO {schema}.chunk_range (task_id, plan, pass, planned, step, item, part, after_key, through_key, rows, failures, state)
SELECT w.id, c.plan, c.pass, c.planned, c.step, c.item, w.part, w.after_key, w.through_key, w.rows, c.failures, 'reopened'
FROM {schema}.chunk_range AS c,
    unnest(@ids::bigint[], @parts::text[], @after::text[], @through::text[], @rows::integer[]) AS w (id, part, after_key, through_key, rows)
WHERE c.task_id = @id

-- name: note_split
UPDATE {schema}.task_archive AS a SET result = @result::text::jsonb WHERE a.id = @id

-- name: note_failed_chunks
-- Notes which of the open chunks have failed, before their tasks are removed: else a step does, but a plan may have no more of them.
WITH failed AS MATERIALIZED (
    SELECT c.task_id FROM {schema}.chunk_plan AS p CROSS JOIN LATERAL {open_chunks} AS c
    CROSS JOIN LATERAL (
        SELECT FROM {schema}.task_archive AS a WHERE a.id = c.task_id AND {chunk_failed}
        FOR KEY SHARE SKIP LOCKED) AS kept
)
UPDATE {schema}.chunk_range AS c SET state = 'failed' WHERE c.task_id = ANY (ARRAY(SELECT f.task_id FROM failed AS f))
  AND c.state IN ('open', 'reopened') -- else a step has planned it again meanwhile

-- name: forget_chunks
-- Removes the chunks whose batch is gone, but those that have failed: a later pass must know them.
DELETE FROM {schema}.chunk_range AS c
WHERE c.task_id = ANY (ARRAY(
    SELECT o.task_id FROM {schema}.chunk_pass AS s
    JOIN {schema}.chunk_range AS o ON o.plan = s.plan AND o.planned = s.pass AND o.state <> 'failed'
    WHERE s.sealed_at < now() - @age::bigint * interval '1 microsecond'
      AND NOT EXISTS (SELECT FROM {schema}.batch AS b WHERE b.id = s.batch_id)
      AND NOT EXISTS (SELECT FROM {schema}.task AS t WHERE t.id = o.task_id)
    LIMIT @limit))

-- name: put_chunk_declarations
-- Stores declarations that were never loaded before, of a session that is known.
INSERT INTO {schema}.chunk_declaration (name, hash, spec)
SELECT w.name, w.hash, w.spec::jsonb FROM unnest(@names::text[], @hashes::text[], @specs::text[]) AS w (name, hash, spec)
WHERE EXISTS (SELECT FROM {schema}.agent AS a WHERE a.session = @session)
  AND NOT EXISTS (SELECT FROM {schema}.chunk_declaration AS d WHERE d.name = w.name AND d.hash = w.hash)
ORDER BY w.name
ON CONFLICT (name, hash) DO NOTHING

-- name: declare_chunks
-- Notes what a session declares, and forgets what it declared before and what sessions declared that are not known. Returns
-- whether the session is known.
WITH known AS MATERIALIZED (
    SELECT a.session FROM {schema}.agent AS a WHERE a.session = @session
), wanted AS MATERIALIZED (
    SELECT k.session, d.number
    FROM known AS k CROSS JOIN unnest(@names::text[], @hashes::text[]) AS w (name, hash)
    JOIN {schema}.chunk_declaration AS d ON d.name = w.name AND d.hash = w.hash
), gone AS (
    DELETE FROM {schema}.chunk_declarer AS r
    WHERE EXISTS (SELECT FROM known) AND (r.session = @session AND NOT EXISTS (SELECT FROM wanted AS w WHERE w.number = r.number)
       OR NOT EXISTS (SELECT FROM {schema}.agent AS a WHERE a.session = r.session))
), declared AS (
    INSERT INTO {schema}.chunk_declarer (session, number) SELECT w.session, w.number FROM wanted AS w
    ON CONFLICT (session, number) DO NOTHING
)
SELECT EXISTS (SELECT FROM known)

-- name: insert_declared_chunks
-- Inserts plans that present sessions declare and that do not exist, each as the one who came first declares it.
INSERT INTO {schema}.chunk_plan (name, declared, task, table_name, key_name, size_start, size_min, size_max, target_us, ahead, follow_us, source)
SELECT DISTINCT ON (d.name) d.name, d.number, d.spec->>'task', d.spec->>'table', d.spec->>'key', (d.spec->>'size_start')::integer,
    (d.spec->>'size_min')::integer, (d.spec->>'size_max')::integer, (d.spec->>'target_us')::bigint, (d.spec->>'ahead')::integer,
    (d.spec->>'follow_us')::bigint, d.spec->'source'
FROM {schema}.agent AS a
JOIN {schema}.chunk_declarer AS r ON r.session = a.session
JOIN {schema}.chunk_declaration AS d ON d.number = r.number
WHERE a.present_until > now() AND NOT EXISTS (SELECT FROM {schema}.chunk_plan AS p WHERE p.name = d.name)
ORDER BY d.name, d.number
ON CONFLICT (name) DO NOTHING

-- name: settle_chunks
-- Puts the newest declaration of present sessions in force that has the plan's task, table and key. A plan that follows from now
-- on is not over.
UPDATE {schema}.chunk_plan AS p SET
    version = p.version + 1, declared = d.number, size_start = (d.spec->>'size_start')::integer,
    size_min = (d.spec->>'size_min')::integer, size_max = (d.spec->>'size_max')::integer,
    target_us = (d.spec->>'target_us')::bigint, ahead = (d.spec->>'ahead')::integer, follow_us = (d.spec->>'follow_us')::bigint,
    source = d.spec->'source', size = 0, over = p.over AND (d.spec->>'follow_us')::bigint = 0
FROM (
    SELECT e.name, max(e.number) AS number
    FROM {schema}.agent AS a
    JOIN {schema}.chunk_declarer AS r ON r.session = a.session
    JOIN {schema}.chunk_declaration AS e ON e.number = r.number
    JOIN {schema}.chunk_plan AS q ON q.name = e.name AND q.task = e.spec->>'task' AND q.table_name = e.spec->>'table'
        AND q.key_name = e.spec->>'key'
    WHERE a.present_until > now()
    GROUP BY e.name
) AS newest
JOIN {schema}.chunk_declaration AS d ON d.number = newest.number
WHERE p.name = newest.name AND p.declared <> newest.number

-- name: declared_chunks
-- What became of what a session declares: the plan's name, whether that is in force, and whether it is refused.
SELECT d.name, p.declared = d.number,
    p.task <> d.spec->>'task' OR p.table_name <> d.spec->>'table' OR p.key_name <> d.spec->>'key'
FROM {schema}.chunk_declarer AS r
JOIN {schema}.chunk_declaration AS d ON d.number = r.number
JOIN {schema}.chunk_plan AS p ON p.name = d.name
WHERE r.session = @session
ORDER BY d.name
