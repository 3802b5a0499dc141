-- Lets agents of any region claim rows that have waited too long for those of theirs. The regions of a type are found one after another, so that
-- neither rows of the own one nor those that have not waited long enough are gone through. Rows that others have locked are left.
WITH RECURSIVE place AS (
    SELECT w.type, w.after, ''::text AS region, 0 AS n FROM unnest(@types::text[], @afters::bigint[]) AS w (type, after)
    UNION ALL
    SELECT p.type, p.after, next.region, p.n + 1 FROM place AS p CROSS JOIN LATERAL (
        SELECT t.region FROM {schema}.task AS t
        WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
          AND t.type = p.type AND t.region > p.region
        ORDER BY t.region LIMIT 1) AS next
    WHERE p.n < @regions::integer
), late AS MATERIALIZED (
    SELECT r.id FROM place AS p CROSS JOIN LATERAL (
        SELECT t.id FROM {schema}.task AS t
        WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
          AND t.type = p.type AND t.region = p.region
          AND coalesce(t.first_due, t.run_at) <= now() - p.after * interval '1 microsecond'
        ORDER BY coalesce(t.first_due, t.run_at), t.id LIMIT @most
        FOR NO KEY UPDATE SKIP LOCKED) AS r
    WHERE p.n > 0 AND p.region <> @region LIMIT @most
), spilled AS (
    UPDATE {schema}.task AS t SET spilled_from = t.region, region = NULL, first_due = NULL
    WHERE t.id = ANY (ARRAY(SELECT l.id FROM late AS l)) RETURNING t.id
)
SELECT s.n, CASE WHEN s.n > 0 THEN pg_notify({channel_literal}, '') END IS NOT NULL FROM (SELECT count(*) AS n FROM spilled) AS s
