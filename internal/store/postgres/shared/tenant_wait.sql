-- Whether a tenant (w) has room in its bounds (b), as tenant_rooms counts it: NULL: it has; 0: its limit leaves none; else in how many microseconds
-- its rate brings a token. It is only where claims look: tenant_rooms has the last word. What only a claim may change, a count
-- that lies ahead and tokens that were returned, counts as room.
CASE WHEN b.tenant_most > 0 AND (
            SELECT count(*) FROM (
                SELECT FROM {schema}.task AS r
                WHERE r.limited IS NOT NULL AND r.limited = b.name AND r.tenant = w.tenant AND r.state IN ('running', 'rollback_running')
                LIMIT b.tenant_most) AS c
        ) + coalesce((SELECT u.n FROM unnamed AS u WHERE u.tenant = w.tenant), 0) + (
            SELECT count(*) FROM {schema}.limit_place AS p
            WHERE p.name = b.name AND p.tenant = w.tenant AND p.until > now() AND p.kept_at <= now() + interval '1 second'
        ) >= b.tenant_most THEN 0
    WHEN b.tenant_rate > 0 AND NOT EXISTS (SELECT FROM {schema}.limit_token AS n WHERE n.name = b.name AND n.tenant = w.tenant) THEN (
        SELECT greatest(((1 - e.tokens) / b.tenant_rate * 1000000)::bigint, 1) FROM (
            SELECT k.tokens + greatest(extract(epoch FROM now() - k.counted_at), 0)::double precision * b.tenant_rate AS tokens
            FROM {schema}.tenant_bucket AS k WHERE k.name = b.name AND k.tenant = w.tenant AND k.counted_at <= now() LIMIT 1
        ) AS e WHERE e.tokens < 1)
    END
