-- name: region_orphans
-- Lists the due rows of regions, by type, that no present agent with workers of that region declares, and whether only a part was looked at. The
-- walk goes from the first row of one type and region to that of the next, by two looks in the index of the waiting rows of regions, and
-- skips the others. Of the pairs without an agent it reads @looked rows at most, those first that were due first.
SELECT w.region, w.type,
    (SELECT count(*) FROM (
        SELECT t.run_at FROM task AS t INDEXED BY task_spill
        WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
            AND t.type = w.type AND t.region = w.region
        ORDER BY ifnull(t.first_due, t.run_at) LIMIT @looked) AS x
        WHERE x.run_at <= @now) AS due,
    (SELECT count(*) FROM (
        SELECT 1 FROM task AS t INDEXED BY task_spill
        WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
            AND t.type = w.type AND t.region = w.region
        LIMIT @looked) AS x) >= @looked
FROM (
    WITH RECURSIVE walk (id, n) AS (
        SELECT (
            SELECT t.id FROM task AS t INDEXED BY task_spill
            WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
            ORDER BY t.type, t.region LIMIT 1), 1
        UNION ALL
        SELECT ifnull((
            SELECT t.id FROM task AS t INDEXED BY task_spill
            WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
                AND t.type = p.type AND t.region > p.region
            ORDER BY t.region LIMIT 1), (
            SELECT t.id FROM task AS t INDEXED BY task_spill
            WHERE t.region IS NOT NULL AND t.held IS NULL AND t.state IN ('pending', 'retry_pending', 'rollback_pending')
                AND t.type > p.type
            ORDER BY t.type, t.region LIMIT 1)), k.n + 1
        FROM walk AS k CROSS JOIN task AS p ON p.id = k.id WHERE k.n < @steps
    )
    SELECT p.type, p.region FROM walk AS k CROSS JOIN task AS p ON p.id = k.id
    WHERE p.region <> '' AND NOT EXISTS (
        SELECT 1 FROM agent AS a
        WHERE a.present_until > @now AND a.workers > 0 AND a.region = p.region
            AND EXISTS (SELECT 1 FROM json_each(a.types) AS d WHERE d.value = p.type))
    LIMIT @pairs
) AS w;
