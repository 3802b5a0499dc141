-- The priorities in which rows of one want may wait, from high to low: only zero where no other is in use, which two lookups in
-- the index show. To look for rows in each of the others, in vain, costs a claim of one row 3 to 7% of its time. A subquery with LIMIT
-- cannot become one that reads the rows of all types.
generate_series(
            coalesce((SELECT 10 FROM {schema}.task AS h WHERE h.state IN ({states}) AND h.held IS NULL AND h.tenant {of_tenant} AND h.type = w.type
                AND coalesce(h.region, '') = {region} AND h.priority > 0 LIMIT 1), 0),
            coalesce((SELECT -10 FROM {schema}.task AS h WHERE h.state IN ({states}) AND h.held IS NULL AND h.tenant {of_tenant} AND h.type = w.type
                AND coalesce(h.region, '') = {region} AND h.priority < 0 LIMIT 1), 0), -1) AS p (priority)
