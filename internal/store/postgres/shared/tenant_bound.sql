-- What bounds each tenant of a type, if anything does, and the rows of its tenants that run and do not name the limit, while there may be such.
bound AS MATERIALIZED (
    SELECT l.type AS name, l.tenant_most, l.tenant_rate, l.tenant_burst, l.counts_all
    FROM {schema}.type_limit AS k JOIN {schema}.type_limit AS l ON l.type = k.name
    WHERE k.type = @type AND (l.tenant_most > 0 OR l.tenant_rate > 0)
), unnamed AS MATERIALIZED (
    SELECT t.tenant, count(*) AS n FROM {schema}.task AS t
    WHERE (SELECT b.counts_all FROM bound AS b) AND t.state IN ('running', 'rollback_running') AND t.tenant IS NOT NULL
      AND t.limited IS DISTINCT FROM (SELECT b.name FROM bound AS b)
      AND t.type = ANY (ARRAY(SELECT k.type FROM {schema}.type_limit AS k WHERE k.name = (SELECT b.name FROM bound AS b)))
    GROUP BY t.tenant
)
