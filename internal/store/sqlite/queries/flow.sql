-- What limits, rates and locks let start, and who waits for them (flow.go): a bounded number of each.

-- name: flow_limits
-- The limits by name, with what is in use, and with the tokens of their rates.
SELECT l.name, (SELECT json_group_array(x.type) FROM (SELECT m.type FROM type_limit AS m WHERE m.name = l.name ORDER BY m.type LIMIT @most) AS x),
    l.most, l.rate, l.burst, l.tenant_most, l.tenant_rate, l.tenant_burst,
    (SELECT count(*) FROM (SELECT 1 FROM task AS r INDEXED BY task_limited
        WHERE r.limited = l.name AND r.limited IS NOT NULL AND r.state IN ('running', 'rollback_running') LIMIT @counted))
    + (SELECT count(*) FROM (SELECT 1 FROM limit_place AS k INDEXED BY limit_place_name WHERE k.name = l.name AND k.until > @now AND NOT EXISTS (
        SELECT 1 FROM task AS r WHERE r.id = k.task_id AND r.fence = k.fence AND r.state IN ('running', 'rollback_running')) LIMIT @counted)),
    ifnull(u.tokens, CAST(l.burst AS REAL)), ifnull(u.counted_at, @now)
FROM type_limit AS l LEFT JOIN limit_bucket AS u ON u.name = l.name
WHERE l.type = l.name ORDER BY l.type LIMIT @most;

-- name: flow_tenants
-- The tenants of whom rows of an index ({where} is the condition of {index}) wait, by type and region, and how many, @counted of each at most. The
-- walk goes from one to the next, by a look in the index or three, since a look for a triple behind that of a row would pass over the whole type.
WITH RECURSIVE walk (id, n) AS (
    SELECT (SELECT task.id FROM task {index} WHERE {where} ORDER BY task.type, ifnull(task.region, ''), task.tenant LIMIT 1), 1
    UNION ALL
    SELECT coalesce(
        (SELECT task.id FROM task {index} WHERE {where} AND task.type = t.type AND ifnull(task.region, '') = ifnull(t.region, '')
            AND task.tenant > t.tenant ORDER BY task.tenant LIMIT 1),
        (SELECT task.id FROM task {index} WHERE {where} AND task.type = t.type AND ifnull(task.region, '') > ifnull(t.region, '')
            ORDER BY ifnull(task.region, ''), task.tenant LIMIT 1),
        (SELECT task.id FROM task {index} WHERE {where} AND task.type > t.type ORDER BY task.type, ifnull(task.region, ''), task.tenant LIMIT 1)),
        walk.n + 1
    FROM walk CROSS JOIN task AS t ON t.id = walk.id WHERE walk.n < @most
)
SELECT t.type, t.tenant, (SELECT count(*) FROM (
    SELECT 1 FROM task {index} WHERE {where} AND task.type = t.type AND ifnull(task.region, '') = ifnull(t.region, '') AND task.tenant = t.tenant
    LIMIT @counted))
FROM walk CROSS JOIN task AS t ON t.id = walk.id ORDER BY walk.n;

-- name: flow_tenant_use
-- What is in use of a tenant of a limit, and the tokens of its rate.
SELECT (SELECT count(*) FROM (SELECT 1 FROM task INDEXED BY task_limited
        WHERE limited = @name AND limited IS NOT NULL AND tenant = @tenant AND state IN ('running', 'rollback_running') LIMIT @counted))
    + (SELECT count(*) FROM (SELECT 1 FROM limit_place AS k INDEXED BY limit_place_name
        WHERE k.name = @name AND k.tenant = @tenant AND k.until > @now AND NOT EXISTS (
            SELECT 1 FROM task AS r WHERE r.id = k.task_id AND r.fence = k.fence AND r.state IN ('running', 'rollback_running')) LIMIT @counted)),
    (SELECT tokens FROM tenant_bucket WHERE name = @name AND tenant = @tenant),
    (SELECT counted_at FROM tenant_bucket WHERE name = @name AND tenant = @tenant);

-- name: flow_locks
-- The locks for which rows wait, by name, with what holds each.
WITH RECURSIVE walk (lock, n) AS (
    SELECT (SELECT task.lock FROM task INDEXED BY task_held WHERE held = 'lock' ORDER BY task.lock LIMIT 1), 1
    UNION ALL
    SELECT (SELECT task.lock FROM task INDEXED BY task_held WHERE held = 'lock' AND task.lock > walk.lock ORDER BY task.lock LIMIT 1), walk.n + 1
    FROM walk WHERE walk.lock IS NOT NULL AND walk.n < @most
)
SELECT walk.lock, ifnull(h.task_id, 0), ifnull(o.type, ''), ifnull(o.state, ''), o.claimed_at,
    (SELECT max(n.until) FROM lock_note AS n INDEXED BY lock_note_until WHERE n.until IS NOT NULL AND n.name = walk.lock AND n.until > @now),
    (SELECT count(*) FROM (SELECT 1 FROM task INDEXED BY task_held WHERE held = 'lock' AND task.lock = walk.lock LIMIT @counted)),
    (SELECT task.id FROM task INDEXED BY task_held WHERE held = 'lock' AND task.lock = walk.lock
        ORDER BY task.type, ifnull(task.region, ''), (task.state = 'rollback_pending'), task.priority DESC, task.run_at, task.id LIMIT 1)
FROM walk LEFT JOIN lock_holder AS h ON h.name = walk.lock LEFT JOIN task AS o ON o.id = h.task_id
WHERE walk.lock IS NOT NULL ORDER BY walk.n;
