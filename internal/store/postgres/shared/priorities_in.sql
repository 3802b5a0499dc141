-- As priorities.sql, of rows in any of @regions. Each of them is looked up alone: a lookup of region = ANY would go through all rows of the type.
generate_series(
            coalesce((SELECT 10 FROM unnest(@regions::text[]) AS q (region) CROSS JOIN LATERAL (
                SELECT FROM {schema}.task AS h WHERE h.state IN ({states}) AND h.held IS NULL AND h.tenant {of_tenant} AND h.type = w.type
                AND coalesce(h.region, '') = q.region AND h.priority > 0 LIMIT 1) AS high LIMIT 1), 0),
            coalesce((SELECT -10 FROM unnest(@regions::text[]) AS q (region) CROSS JOIN LATERAL (
                SELECT FROM {schema}.task AS h WHERE h.state IN ({states}) AND h.held IS NULL AND h.tenant {of_tenant} AND h.type = w.type
                AND coalesce(h.region, '') = q.region AND h.priority < 0 LIMIT 1) AS low LIMIT 1), 0), -1) AS p (priority)
