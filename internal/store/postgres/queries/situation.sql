-- What decides whether a task may start: ops.Why.

-- name: circumstances
-- What keeps a task from being claimed, but for its due time, the sessions and what comes first.
SELECT coalesce(p.body, 'null'),
    coalesce(b.requested, ''), coalesce(b.requested_by, ''), coalesce(b.by_failure, false),
    z.paused_at, coalesce(z.paused_by, ''), coalesce(z.reason, ''),
    coalesce(h.task_id, 0), coalesce(o.state, ''), o.claimed_at,
    CASE WHEN t.lock IS NOT NULL THEN
        (SELECT max(n.until) FROM {schema}.lock_note AS n WHERE n.until IS NOT NULL AND n.name = t.lock AND n.until > now()) END,
    coalesce(l.name, ''), coalesce(l.most, 0), coalesce(l.rate, 0), coalesce(l.burst, 0),
    coalesce(l.tenant_most, 0), coalesce(l.tenant_rate, 0), coalesce(l.tenant_burst, 0),
    CASE WHEN l.most > 0 THEN
        (SELECT count(*) FROM {schema}.task AS r
            WHERE r.limited IS NOT NULL AND r.limited = l.name AND r.state IN ('running', 'rollback_running'))
        + (SELECT count(*) FROM {schema}.limit_place AS k WHERE k.name = l.name AND k.until > now())
        ELSE 0 END,
    coalesce(u.tokens, l.burst, 0), coalesce(u.counted_at, now()),
    CASE WHEN l.rate > 0 THEN (SELECT count(*) FROM {schema}.limit_token AS k WHERE k.name = l.name AND NOT EXISTS (
            SELECT FROM {schema}.task AS r WHERE r.id = k.task_id AND r.fence = k.fence AND r.state IN ('running', 'rollback_running')))
        ELSE 0 END,
    CASE WHEN l.tenant_most > 0 THEN
        (SELECT count(*) FROM {schema}.task AS r
            WHERE r.limited IS NOT NULL AND r.limited = l.name AND r.tenant = t.tenant AND r.state IN ('running', 'rollback_running'))
        + (SELECT count(*) FROM {schema}.limit_place AS k WHERE k.name = l.name AND k.tenant = t.tenant AND k.until > now())
        ELSE 0 END,
    coalesce(v.tokens, l.tenant_burst, 0), coalesce(v.counted_at, now())
FROM {schema}.task AS t
LEFT JOIN {schema}.policy AS p ON p.hash = t.policy
LEFT JOIN {schema}.batch AS b ON b.id = t.batch_id AND b.stopping AND b.ended_at IS NULL
LEFT JOIN {schema}.type_pause AS z ON z.type = t.type
LEFT JOIN {schema}.lock_holder AS h ON h.name = t.lock AND h.task_id <> t.id
LEFT JOIN {schema}.task AS o ON o.id = h.task_id
LEFT JOIN {schema}.type_limit AS m ON m.type = t.type
LEFT JOIN {schema}.type_limit AS l ON l.type = m.name
LEFT JOIN {schema}.limit_bucket AS u ON u.name = l.name
LEFT JOIN {schema}.tenant_bucket AS v ON v.name = l.name AND v.tenant = t.tenant
WHERE t.id = @id

-- name: holder_seen
-- The last heartbeat of a session, and when it expires.
SELECT seen_at, present_until FROM {schema}.agent WHERE session = @session

-- name: running_types
SELECT t.type, count(*) FROM {schema}.task AS t WHERE t.state IN ('running', 'rollback_running') GROUP BY t.type ORDER BY 2 DESC, 1 LIMIT 10

-- name: ahead
-- How many rows a claim takes before one, of its type, region and tenant, @most at most. The class is the condition of the index that such claims walk.
SELECT count(*) FROM (
    SELECT FROM {schema}.task AS s CROSS JOIN LATERAL (
        SELECT FROM generate_series(s.priority + 1, 10) AS p (priority) CROSS JOIN LATERAL (
            SELECT FROM {schema}.task AS t
            WHERE {where} AND t.type = s.type AND coalesce(t.region, '') = coalesce(s.region, '') AND t.priority = p.priority AND t.run_at <= now()
            LIMIT @most) AS higher
        UNION ALL
        SELECT FROM {schema}.task AS t
        WHERE {where} AND t.type = s.type AND coalesce(t.region, '') = coalesce(s.region, '') AND t.priority = s.priority AND t.run_at <= now()
          AND (t.run_at, t.id) < (s.run_at, s.id)
    ) AS r WHERE s.id = @id LIMIT @most) AS a

-- name: ahead_in_sequence
SELECT count(*) FROM (
    SELECT FROM {schema}.task AS s JOIN {schema}.task AS t ON t.type = s.type AND t.sequence = s.sequence AND t.id < s.id
    WHERE s.id = @id LIMIT @most) AS a

-- name: waiting_for_lock
SELECT count(*) FROM (
    SELECT FROM {schema}.task AS s JOIN {schema}.task AS t ON t.lock = s.lock AND t.held = 'lock' WHERE s.id = @id LIMIT @most) AS a
