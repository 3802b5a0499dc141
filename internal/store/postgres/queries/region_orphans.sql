-- Lists the due rows of regions, by type, that no present agent with workers of that region declares, and whether only a part was looked at. The
-- walk goes from one (type, region) to the next, by a look in the index of the waiting rows of regions each, and skips the others. Of the
-- pairs without an agent it reads @looked rows at most, those first that were due first.
WITH RECURSIVE walk (type, region, n) AS (
    SELECT ''::text, ''::text, 0
    UNION ALL
    SELECT f.type, f.region, k.n + 1 FROM walk AS k CROSS JOIN LATERAL (
        SELECT t.type, t.region FROM {schema}.task AS t
        WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
          AND (t.type, t.region) > (k.type, k.region)
        ORDER BY t.type, t.region LIMIT 1
    ) AS f
    WHERE k.n < @steps::integer
)
SELECT w.region, w.type, r.due, r.looked >= @looked::integer
FROM (
    SELECT k.type, k.region FROM walk AS k
    WHERE k.region <> '' AND NOT EXISTS (
        SELECT FROM {schema}.agent AS a
        WHERE a.present_until > now() AND a.workers > 0 AND a.region = k.region AND k.type = ANY (a.types))
    LIMIT @pairs::integer
) AS w CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE x.run_at <= now()) AS due, count(*) AS looked FROM (
        SELECT t.run_at FROM {schema}.task AS t
        WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
          AND t.type = w.type AND t.region = w.region
        ORDER BY coalesce(t.first_due, t.run_at) LIMIT @looked::integer
    ) AS x
) AS r
WHERE r.due > 0 ORDER BY w.region, w.type
