-- Returns how many rows of a type may start now, but for limits, rates and breakers; 10,000 at most. 0 while the type is paused. For autoscalers:
-- it reads no more than the type's entries in the indexes of waiting rows.
CREATE OR REPLACE FUNCTION {schema}.backlog(type text) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
    SELECT count(*) FROM (
        SELECT FROM {schema}.task AS t WHERE t.type = backlog.type AND t.state IN ('pending', 'retry_pending') AND t.held IS NULL
            AND t.tenant IS NULL AND t.run_at <= now()
        UNION ALL
        SELECT FROM {schema}.task AS t WHERE t.type = backlog.type AND t.state = 'rollback_pending' AND t.held IS NULL
            AND t.tenant IS NULL AND t.run_at <= now()
        UNION ALL
        SELECT FROM {schema}.task AS t WHERE t.type = backlog.type AND t.state IN ('pending', 'retry_pending') AND t.held IS NULL
            AND t.tenant IS NOT NULL AND t.run_at <= now()
        UNION ALL
        SELECT FROM {schema}.task AS t WHERE t.type = backlog.type AND t.state = 'rollback_pending' AND t.held IS NULL
            AND t.tenant IS NOT NULL AND t.run_at <= now()
        LIMIT 10000
    ) AS x WHERE NOT EXISTS (SELECT FROM {schema}.type_pause AS p WHERE p.type = backlog.type)
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.backlog(text) FROM PUBLIC;
