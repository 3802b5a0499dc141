-- Finding tenants: by a walk along the index from one to the next, which skips their rows.

-- name: tenant_types
{tenant_places}

-- name: find_tenants
-- Returns the tenants behind one of which rows of a type wait to be run, @most of them at most, in order, and in how many microseconds
-- the first row of each is due; NULL where none may start. Where the row of the highest priority is due, which the walk has come by, that is 0;
-- else priorities are looked at one by one, as by a claim. wait is NULL where rows of the tenant may start, 0 where its limit lets none, and
-- else in how many microseconds its rate lets one.
WITH RECURSIVE {tenant_bound}, walk (tenant, run_at, batch_id, n) AS (
    (SELECT f.tenant, f.run_at, f.batch_id, 1 FROM unnest(@regions::text[]) AS g (region) CROSS JOIN LATERAL (
        SELECT t.tenant, t.run_at, t.batch_id FROM {schema}.task AS t
        WHERE t.state IN ('pending', 'retry_pending') AND t.held IS NULL AND t.tenant IS NOT NULL AND t.type = @type
          AND coalesce(t.region, '') = g.region AND t.tenant > @after::text COLLATE "C"
        ORDER BY t.tenant, t.priority DESC, t.run_at, t.id LIMIT 1
    ) AS f ORDER BY f.tenant LIMIT 1)
    UNION ALL
    SELECT f.tenant, f.run_at, f.batch_id, k.n + 1 FROM walk AS k CROSS JOIN LATERAL (
        SELECT e.tenant, e.run_at, e.batch_id FROM unnest(@regions::text[]) AS g (region) CROSS JOIN LATERAL (
        SELECT t.tenant, t.run_at, t.batch_id FROM {schema}.task AS t
        WHERE t.state IN ('pending', 'retry_pending') AND t.held IS NULL AND t.tenant IS NOT NULL AND t.type = @type
          AND coalesce(t.region, '') = g.region AND t.tenant > k.tenant
        ORDER BY t.tenant, t.priority DESC, t.run_at, t.id LIMIT 1
        ) AS e ORDER BY e.tenant LIMIT 1
    ) AS f WHERE k.n < @most::integer
)
SELECT w.tenant, f.us, CASE WHEN f.us <= 0 AND b.name IS NOT NULL THEN {tenant_wait} END
FROM (SELECT k.tenant, @type::text AS type, k.run_at, k.batch_id, k.n FROM walk AS k) AS w
CROSS JOIN LATERAL (SELECT CASE
    WHEN w.run_at <= now() AND (w.batch_id IS NULL OR w.batch_id <> ALL (ARRAY(
            SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL))) THEN 0
    ELSE (SELECT (extract(epoch FROM min(first.run_at) - now()) * 1000000)::bigint FROM unnest(@regions::text[]) AS g (region)
    CROSS JOIN {priorities states='pending','retry_pending' region=g.region of_tenant==w.tenant} CROSS JOIN LATERAL (
        SELECT t.run_at FROM {schema}.task AS t
        WHERE t.state IN ('pending', 'retry_pending') AND t.held IS NULL AND t.tenant = w.tenant
              AND (t.batch_id IS NULL OR t.batch_id <> ALL (ARRAY(
                  SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL)))
              AND t.type = w.type AND coalesce(t.region, '') = g.region AND t.priority = p.priority
        ORDER BY t.run_at, t.id LIMIT 1) AS first) END AS us OFFSET 0) AS f
LEFT JOIN bound AS b ON true ORDER BY w.n

-- name: find_tenants_rollback
-- As find_tenants, of rows that wait to be rolled back.
WITH RECURSIVE {tenant_bound}, walk (tenant, run_at, n) AS (
    (SELECT f.tenant, f.run_at, 1 FROM unnest(@regions::text[]) AS g (region) CROSS JOIN LATERAL (
        SELECT t.tenant, t.run_at FROM {schema}.task AS t
        WHERE t.state IN ('rollback_pending') AND t.held IS NULL AND t.tenant IS NOT NULL AND t.type = @type
          AND coalesce(t.region, '') = g.region AND t.tenant > @after::text COLLATE "C"
        ORDER BY t.tenant, t.priority DESC, t.run_at, t.id LIMIT 1
    ) AS f ORDER BY f.tenant LIMIT 1)
    UNION ALL
    SELECT f.tenant, f.run_at, k.n + 1 FROM walk AS k CROSS JOIN LATERAL (
        SELECT e.tenant, e.run_at FROM unnest(@regions::text[]) AS g (region) CROSS JOIN LATERAL (
        SELECT t.tenant, t.run_at FROM {schema}.task AS t
        WHERE t.state IN ('rollback_pending') AND t.held IS NULL AND t.tenant IS NOT NULL AND t.type = @type
          AND coalesce(t.region, '') = g.region AND t.tenant > k.tenant
        ORDER BY t.tenant, t.priority DESC, t.run_at, t.id LIMIT 1
        ) AS e ORDER BY e.tenant LIMIT 1
    ) AS f WHERE k.n < @most::integer
)
SELECT w.tenant, f.us, CASE WHEN f.us <= 0 AND b.name IS NOT NULL THEN {tenant_wait} END
FROM (SELECT k.tenant, @type::text AS type, k.run_at, k.n FROM walk AS k) AS w
CROSS JOIN LATERAL (SELECT CASE
    WHEN w.run_at <= now() THEN 0
    ELSE (SELECT (extract(epoch FROM min(first.run_at) - now()) * 1000000)::bigint FROM unnest(@regions::text[]) AS g (region)
    CROSS JOIN {priorities states='rollback_pending' region=g.region of_tenant==w.tenant} CROSS JOIN LATERAL (
        SELECT t.run_at FROM {schema}.task AS t
        WHERE t.state IN ('rollback_pending') AND t.held IS NULL AND t.tenant = w.tenant
              AND t.type = w.type AND coalesce(t.region, '') = g.region AND t.priority = p.priority
        ORDER BY t.run_at, t.id LIMIT 1) AS first) END AS us OFFSET 0) AS f
LEFT JOIN bound AS b ON true ORDER BY w.n
