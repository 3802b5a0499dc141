-- The places, from 1 on, of those types and phases of which rows with a tenant wait. A subquery with LIMIT cannot become one that reads
-- the rows of all types.
SELECT w.place FROM unnest(@types::text[], @rollbacks::boolean[]) WITH ORDINALITY AS w (type, rollback, place)
WHERE CASE WHEN w.rollback THEN (
        SELECT true FROM unnest(@regions::text[]) AS g (region) CROSS JOIN LATERAL (
            SELECT FROM {schema}.task AS t
            WHERE t.state = 'rollback_pending' AND t.held IS NULL AND t.tenant IS NOT NULL AND t.type = w.type
              AND coalesce(t.region, '') = g.region LIMIT 1) AS f LIMIT 1)
    ELSE (
        SELECT true FROM unnest(@regions::text[]) AS g (region) CROSS JOIN LATERAL (
            SELECT FROM {schema}.task AS t
            WHERE t.state IN ('pending', 'retry_pending') AND t.held IS NULL AND t.tenant IS NOT NULL AND t.type = w.type
              AND coalesce(t.region, '') = g.region LIMIT 1) AS f LIMIT 1) END
