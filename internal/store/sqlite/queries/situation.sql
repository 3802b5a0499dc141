-- What decides whether a task may start: ops.Why.

-- name: circumstances
-- What keeps a task from being claimed, but for its due time, the sessions and what comes first. NOT INDEXED: by the id.
SELECT ifnull(p.body, 'null'),
    ifnull(b.requested, ''), ifnull(b.requested_by, ''), ifnull(b.by_failure, 0),
    z.paused_at, ifnull(z.paused_by, ''), ifnull(z.reason, ''),
    ifnull(h.task_id, 0), ifnull(o.state, ''), o.claimed_at,
    CASE WHEN t.lock IS NOT NULL THEN (SELECT max(n.until) FROM lock_note AS n INDEXED BY lock_note_until
        WHERE n.until IS NOT NULL AND n.name = t.lock AND n.until > @now) END,
    ifnull(l.name, ''), ifnull(l.most, 0), ifnull(l.rate, 0.0), ifnull(l.burst, 0),
    ifnull(l.tenant_most, 0), ifnull(l.tenant_rate, 0.0), ifnull(l.tenant_burst, 0),
    (SELECT count(*) FROM task AS r INDEXED BY task_limited
        WHERE r.limited = l.name AND r.limited IS NOT NULL AND r.state IN ('running', 'rollback_running'))
    + (SELECT count(*) FROM limit_place AS k INDEXED BY limit_place_name WHERE k.name = l.name AND k.until > @now AND NOT EXISTS (
        SELECT 1 FROM task AS r WHERE r.id = k.task_id AND r.fence = k.fence AND r.state IN ('running', 'rollback_running'))),
    ifnull(u.tokens, ifnull(l.burst, 0.0)), ifnull(u.counted_at, @now),
    (SELECT count(*) FROM task AS r INDEXED BY task_limited
        WHERE r.limited = l.name AND r.limited IS NOT NULL AND r.tenant = t.tenant AND r.state IN ('running', 'rollback_running'))
    + (SELECT count(*) FROM limit_place AS k INDEXED BY limit_place_name
        WHERE k.name = l.name AND k.tenant = t.tenant AND k.until > @now AND NOT EXISTS (
            SELECT 1 FROM task AS r WHERE r.id = k.task_id AND r.fence = k.fence AND r.state IN ('running', 'rollback_running'))),
    ifnull(v.tokens, ifnull(l.tenant_burst, 0.0)), ifnull(v.counted_at, @now)
FROM task AS t NOT INDEXED
LEFT JOIN policy AS p ON p.hash = t.policy
LEFT JOIN batch AS b ON b.id = t.batch_id AND b.stopping = 1 AND b.ended_at IS NULL
LEFT JOIN type_pause AS z ON z.type = t.type
LEFT JOIN lock_holder AS h ON h.name = t.lock AND h.task_id <> t.id
LEFT JOIN task AS o ON o.id = h.task_id
LEFT JOIN type_limit AS m ON m.type = t.type
LEFT JOIN type_limit AS l ON l.type = m.name
LEFT JOIN limit_bucket AS u ON u.name = l.name
LEFT JOIN tenant_bucket AS v ON v.name = l.name AND v.tenant = t.tenant
WHERE t.id = @id;

-- name: holder_seen
-- The last heartbeat of a session, and when it expires.
SELECT seen_at, present_until FROM agent WHERE session = @session;

-- name: running_types
-- The type of each row that runs: they are few, and counted by the caller.
SELECT type FROM task INDEXED BY task_running WHERE state IN ('running', 'rollback_running');

-- name: ahead
-- How many rows a claim takes before one, of its type, region and tenant, @most at most. The class is the condition of the index that such claims
-- walk. In each priority nothing is read that is not due, nor of the row's own what comes after it, but for rows of the same due time.
WITH RECURSIVE level (priority) AS (SELECT 10 UNION ALL SELECT priority - 1 FROM level WHERE priority > @priority)
SELECT count(*) FROM (
    SELECT 1 FROM level CROSS JOIN task {index}
    WHERE {where} AND task.type = @type AND ifnull(task.region, '') = @region AND task.priority = level.priority
      AND task.run_at <= CASE WHEN level.priority > @priority THEN @now ELSE min(@run_at, @now) END
      AND (level.priority > @priority OR (task.run_at, task.id) < (@run_at, @id))
    LIMIT @most);

-- name: ahead_in_sequence
SELECT count(*) FROM (
    SELECT 1 FROM task INDEXED BY task_sequence WHERE sequence IS NOT NULL AND type = @type AND sequence = @sequence AND id < @id LIMIT @most);

-- name: waiting_for_lock
SELECT count(*) FROM (SELECT 1 FROM task INDEXED BY task_held WHERE held = 'lock' AND lock = @lock LIMIT @most);
