-- The due rows of one want's tenant, to be run. Most wants are for one row, and it is the first one, whatever its priority: that is looked at
-- before all others, which would take three more lookups. Where low-water marks are in use there may be many dead ones before it.
SELECT either.id, either.batch_id, either.lock, either.sequence, either.bytes FROM (
            SELECT top.id, top.batch_id, top.lock, top.sequence, top.bytes FROM (
                SELECT t.id, t.run_at, t.batch_id, t.lock, t.sequence, {row_bytes} AS bytes
                FROM {schema}.task AS t
                WHERE t.state IN ('pending','retry_pending') AND t.held IS NULL AND t.tenant = w.tenant AND t.type = w.type
                  AND coalesce(t.region, '') = (@regions::text[])[1]
                ORDER BY t.priority DESC, t.run_at, t.id LIMIT 1
                FOR UPDATE OF t SKIP LOCKED
            ) AS top
            WHERE w.n = 1 AND w.low = 0 AND cardinality(@regions::text[]) = 1 AND top.run_at <= now()
              AND (top.batch_id IS NULL OR top.batch_id <> ALL (ARRAY(SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL)))
            UNION ALL
            SELECT each.id, each.batch_id, each.lock, each.sequence, each.bytes FROM (
                SELECT a.id, a.batch_id, a.lock, a.sequence, a.bytes FROM unnest(@regions::text[]) WITH ORDINALITY AS g (region, place)
                CROSS JOIN LATERAL (
                    SELECT r.id, r.batch_id, r.lock, r.sequence, r.bytes, r.run_at, p.priority
                    FROM ( -- as priorities.sql, but those below zero are asked for only when they are needed
                        SELECT generate_series(10, 1, -1) WHERE (
                            SELECT true FROM {schema}.task AS h WHERE h.state IN ('pending','retry_pending') AND h.held IS NULL
                              AND h.tenant = w.tenant AND h.type = w.type AND coalesce(h.region, '') = g.region AND h.priority > 0 LIMIT 1)
                        UNION ALL SELECT 0
                        UNION ALL SELECT generate_series(-1, -10, -1) WHERE (
                            SELECT true FROM {schema}.task AS h WHERE h.state IN ('pending','retry_pending') AND h.held IS NULL
                              AND h.tenant = w.tenant AND h.type = w.type AND coalesce(h.region, '') = g.region AND h.priority < 0 LIMIT 1)
                    ) AS p (priority) CROSS JOIN LATERAL (
                    {claim_range states='pending','retry_pending' region=g.region of_tenant==w.tenant place=w.low-1+array_position((@low_places::integer[])[w.low:w.low+w.lows-1],(g.place::integer-1)*21+11-p.priority)}
                    ) AS r LIMIT w.n
                ) AS a ORDER BY a.priority DESC, a.run_at, a.id LIMIT w.n
            ) AS each
        ) AS either LIMIT w.n
