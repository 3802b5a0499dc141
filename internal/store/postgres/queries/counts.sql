-- Counts of a part of the rows, where there are many (counts.go).

-- name: counts
-- Counts the rows of an index ({where}) by type, with what is due of them: for each type and region, which are found by a look in the index
-- each, @pairs at most, it looks at the first rows, @most at most and @rows of all together, and of each priority at the first that are due.
-- The last columns report whether there are more of either, and that of the row without a type whether there are more types.
WITH RECURSIVE pairs (type, region, n) AS (
    SELECT ''::text, ''::text, 0
    UNION ALL
    SELECT f.type, f.region, k.n + 1 FROM pairs AS k CROSS JOIN LATERAL (
        SELECT t.type, coalesce(t.region, '') AS region FROM {schema}.task AS t
        WHERE {where} AND (t.type, coalesce(t.region, '')) > (k.type, k.region)
        ORDER BY t.type, coalesce(t.region, '') LIMIT 1) AS f
    WHERE k.n < @pairs::integer
), each_pair AS (
    SELECT k.type, k.region, least(@most::bigint, greatest(@rows::bigint / (SELECT max(p.n) FROM pairs AS p), 100)) AS most
    FROM pairs AS k WHERE k.n > 0
)
SELECT e.type, c.pending, c.retry_pending, c.rollback_pending, d.due, d.oldest, c.pending + c.retry_pending + c.rollback_pending >= e.most, d.more
FROM each_pair AS e CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE x.state = 'pending') AS pending, count(*) FILTER (WHERE x.state = 'retry_pending') AS retry_pending,
        count(*) FILTER (WHERE x.state = 'rollback_pending') AS rollback_pending
    FROM (
        SELECT t.state FROM {schema}.task AS t WHERE {where} AND t.type = e.type AND coalesce(t.region, '') = e.region
        ORDER BY t.type, coalesce(t.region, ''), {order} LIMIT e.most
    ) AS x
) AS c CROSS JOIN LATERAL (
    SELECT coalesce(sum(y.due), 0)::bigint AS due, (extract(epoch FROM now() - min(y.oldest)) * 1000000)::bigint AS oldest,
        coalesce(bool_or(y.due >= e.most / 4), false) AS more
    FROM ({due}) AS y
) AS d
UNION ALL
SELECT '', 0, 0, 0, 0, NULL, max(p.n) >= @pairs::integer, false FROM pairs AS p

-- name: counts_held
-- Counts what waits for a lock, its turn or others, and what runs, @most of each at most. The last row of each kind reports whether there are
-- more.
WITH locked AS (
    SELECT t.type, t.state FROM {schema}.task AS t WHERE t.held = 'lock' ORDER BY t.lock LIMIT @most::bigint
), in_sequence AS (
    SELECT t.type, t.state, t.held FROM {schema}.task AS t WHERE t.sequence IS NOT NULL ORDER BY t.type, t.sequence LIMIT @most::bigint
), dependent AS (
    SELECT d.task_id FROM {schema}.dependent AS d ORDER BY d.task_id LIMIT @most::bigint
), running AS (
    SELECT t.type, t.state FROM {schema}.task AS t WHERE t.state IN ('running', 'rollback_running') ORDER BY t.session LIMIT @most::bigint
)
SELECT k.type, k.state, count(*), false FROM (
    SELECT l.type, l.state FROM locked AS l
    UNION ALL
    SELECT s.type, s.state FROM in_sequence AS s WHERE s.held = 'sequence'
    UNION ALL
    SELECT t.type, t.state FROM dependent AS d JOIN {schema}.task AS t ON t.id = d.task_id WHERE t.held = 'after'
    UNION ALL
    SELECT r.type, r.state FROM running AS r
) AS k GROUP BY k.type, k.state
UNION ALL
SELECT '', '', 0, (SELECT count(*) FROM locked) >= @most OR (SELECT count(*) FROM in_sequence) >= @most
    OR (SELECT count(*) FROM dependent) >= @most OR (SELECT count(*) FROM running) >= @most
