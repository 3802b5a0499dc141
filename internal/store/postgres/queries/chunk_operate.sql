-- name: list_chunk_plans
-- Plans by name, from one on.
SELECT p.name, p.task, p.table_name, p.key_name, p.source::text, p.ahead, p.follow_us, p.target_us, p.size, p.per_row, p.pass,
    p.done_rows, p.high, p.over, p.created_at, p.paused_at, p.paused_by, p.declared, p.halted, p.planning, p.live, p.held
FROM {schema}.chunk_plans AS p WHERE p.name >= @from ORDER BY p.name LIMIT @limit

-- name: list_chunk_passes
-- The newest passes of a plan that are below one.
SELECT s.pass, s.whole, s.from_key, s.through_key, s.ranges, s.chunks, s.rows, s.began_at, s.sealed_at, s.batch_id,
    s.batch_state, s.total, s.live, s.succeeded, s.failed, s.ended_at, s.sizes, s.first_key, s.last_key
FROM {schema}.chunk_passes AS s WHERE s.plan = @name AND (@below = 0 OR s.pass < @below) ORDER BY s.pass DESC LIMIT @limit

-- name: pause_chunks
SELECT {schema}.pause_chunks(@name, @by)

-- name: resume_chunks
SELECT {schema}.resume_chunks(@name, @by)
