-- What limits, rates and locks let start, and who waits for them (flow.go): a bounded number of each.

-- name: flow_limits
-- The limits by name, with what is in use, and with the tokens of their rates and how many were returned to these.
SELECT l.name, ARRAY(SELECT t.type FROM {schema}.type_limit AS t WHERE t.name = l.name ORDER BY t.type LIMIT @most::bigint),
    l.most, l.rate, l.burst, l.tenant_most, l.tenant_rate, l.tenant_burst,
    (SELECT count(*) FROM (SELECT FROM {schema}.task AS r
        WHERE r.limited IS NOT NULL AND r.limited = l.name AND r.state IN ('running', 'rollback_running') LIMIT @counted::bigint) AS x)
    + (SELECT count(*) FROM (SELECT FROM {schema}.limit_place AS k WHERE k.name = l.name AND k.until > now()
        LIMIT @counted::bigint) AS x),
    coalesce(u.tokens, l.burst), coalesce(u.counted_at, now()),
    CASE WHEN l.rate > 0 THEN (SELECT count(*) FROM (SELECT FROM {schema}.limit_token AS k WHERE k.name = l.name AND NOT EXISTS (
            SELECT FROM {schema}.task AS r WHERE r.id = k.task_id AND r.fence = k.fence AND r.state IN ('running', 'rollback_running'))
            LIMIT @counted::bigint) AS x)
        ELSE 0 END
FROM {schema}.type_limit AS l LEFT JOIN {schema}.limit_bucket AS u ON u.name = l.name
WHERE l.type = l.name ORDER BY l.name LIMIT @most::bigint

-- name: flow_tenants
-- The tenants of whom rows of an index ({where}) wait, by type and region, and how many, @counted of each at most. The walk goes from one to
-- the next, by a look in the index each.
WITH RECURSIVE walk (type, region, tenant, n) AS (
    SELECT ''::text, ''::text, ''::text COLLATE "C", 0
    UNION ALL
    SELECT f.type, f.region, f.tenant, k.n + 1 FROM walk AS k CROSS JOIN LATERAL (
        SELECT t.type, coalesce(t.region, '') AS region, t.tenant FROM {schema}.task AS t
        WHERE {where} AND (t.type, coalesce(t.region, ''), t.tenant) > (k.type, k.region, k.tenant)
        ORDER BY t.type, coalesce(t.region, ''), t.tenant LIMIT 1) AS f
    WHERE k.n < @most::integer
)
SELECT k.type, k.tenant, c.waiting FROM walk AS k CROSS JOIN LATERAL (
    SELECT count(*) AS waiting FROM (
        SELECT FROM {schema}.task AS t WHERE {where} AND t.type = k.type AND coalesce(t.region, '') = k.region AND t.tenant = k.tenant
        LIMIT @counted::bigint) AS x) AS c
WHERE k.n > 0 ORDER BY k.n

-- name: flow_tenant_use
-- What is in use of tenants of limits, and the tokens of their rates; in the order of the arguments.
SELECT (SELECT count(*) FROM (SELECT FROM {schema}.task AS r WHERE r.limited IS NOT NULL AND r.limited = w.name AND r.tenant = w.tenant
        AND r.state IN ('running', 'rollback_running') LIMIT @counted::bigint) AS x)
    + (SELECT count(*) FROM (SELECT FROM {schema}.limit_place AS k WHERE k.name = w.name AND k.tenant = w.tenant AND k.until > now()
        LIMIT @counted::bigint) AS x),
    v.tokens, v.counted_at
FROM unnest(@names::text[], @tenants::text[]) WITH ORDINALITY AS w (name, tenant, place)
LEFT JOIN {schema}.tenant_bucket AS v ON v.name = w.name AND v.tenant = w.tenant COLLATE "C" ORDER BY w.place

-- name: flow_locks
-- The locks for which rows wait, by name, with what holds each.
WITH RECURSIVE walk (lock, n) AS (
    SELECT ''::text COLLATE "C", 0
    UNION ALL
    SELECT f.lock, k.n + 1 FROM walk AS k CROSS JOIN LATERAL (
        SELECT t.lock FROM {schema}.task AS t WHERE t.held = 'lock' AND t.lock > k.lock ORDER BY t.lock LIMIT 1) AS f
    WHERE k.n < @most::integer
)
SELECT k.lock, coalesce(h.task_id, 0), coalesce(o.type, ''), coalesce(o.state, ''), o.claimed_at,
    (SELECT max(n.until) FROM {schema}.lock_note AS n WHERE n.until IS NOT NULL AND n.name = k.lock AND n.until > now()),
    c.waiting, f.id
FROM walk AS k CROSS JOIN LATERAL (
    SELECT count(*) AS waiting FROM (
        SELECT FROM {schema}.task AS t WHERE t.held = 'lock' AND t.lock = k.lock LIMIT @counted::bigint) AS x) AS c
CROSS JOIN LATERAL (
    SELECT t.id FROM {schema}.task AS t WHERE t.held = 'lock' AND t.lock = k.lock
    ORDER BY t.lock, t.type, coalesce(t.region, ''), (t.state = 'rollback_pending'), t.priority DESC, t.run_at, t.id LIMIT 1) AS f
LEFT JOIN {schema}.lock_holder AS h ON h.name = k.lock
LEFT JOIN {schema}.task AS o ON o.id = h.task_id
WHERE k.n > 0 ORDER BY k.n
