-- Returns in how many microseconds the next row without a tenant is due that one of the wants could claim: the first row of each index
-- range. And which wants have rows with a tenant.
SELECT (extract(epoch FROM min(first.run_at) - now()) * 1000000)::bigint, ARRAY({tenant_places}) FROM (
    SELECT r.run_at FROM unnest(@types::text[], @rollbacks::boolean[]) AS w (type, rollback)
    CROSS JOIN unnest(@regions::text[]) AS g (region) CROSS JOIN {priorities states='pending','retry_pending' region=g.region}
    CROSS JOIN LATERAL (
        SELECT t.run_at FROM {schema}.task AS t
        WHERE t.state IN ('pending', 'retry_pending') AND t.held IS NULL AND t.tenant IS NULL
              AND (t.batch_id IS NULL OR t.batch_id <> ALL (ARRAY(
                  SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL)))
              AND t.type = w.type AND coalesce(t.region, '') = g.region AND t.priority = p.priority
        ORDER BY t.run_at, t.id LIMIT 1) AS r WHERE NOT w.rollback
    UNION ALL
    SELECT r.run_at FROM unnest(@types::text[], @rollbacks::boolean[]) AS w (type, rollback)
    CROSS JOIN unnest(@regions::text[]) AS g (region) CROSS JOIN {priorities states='rollback_pending' region=g.region}
    CROSS JOIN LATERAL (
        SELECT t.run_at FROM {schema}.task AS t
        WHERE t.state = 'rollback_pending' AND t.held IS NULL AND t.tenant IS NULL
              AND t.type = w.type AND coalesce(t.region, '') = g.region AND t.priority = p.priority
        ORDER BY t.run_at, t.id LIMIT 1) AS r WHERE w.rollback
) AS first
