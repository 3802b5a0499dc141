-- name: waiting_types
-- Lists the types of the rows that an index has, @steps at most. {where} is its condition. The walk goes from one type to the next, by a look in the
-- index each.
WITH RECURSIVE walk (type, n) AS (
    SELECT ''::text, 0
    UNION ALL
    SELECT f.type, k.n + 1 FROM walk AS k CROSS JOIN LATERAL (
        SELECT t.type FROM {schema}.task AS t WHERE {where} AND t.type > k.type ORDER BY t.type LIMIT 1
    ) AS f WHERE k.n < @steps::integer
)
SELECT k.type FROM walk AS k WHERE k.n > 0

-- name: held_types
-- Counts by type what waits for a lock or for others, and what runs, @most of each at most, since no index has them by type. The row without
-- a type reports whether there are more.
WITH locked AS (
    SELECT t.type, t.created_at FROM {schema}.task AS t WHERE t.held = 'lock' ORDER BY t.lock LIMIT @most::bigint
), dependent AS (
    SELECT d.task_id FROM {schema}.dependent AS d ORDER BY d.task_id LIMIT @most::bigint
), running AS (
    SELECT t.type FROM {schema}.task AS t WHERE t.state IN ('running', 'rollback_running') ORDER BY t.session LIMIT @most::bigint
)
SELECT k.type, count(k.created_at), count(*) - count(k.created_at), min(k.created_at), false FROM (
    SELECT l.type, l.created_at FROM locked AS l
    UNION ALL
    SELECT t.type, t.created_at FROM dependent AS d CROSS JOIN LATERAL (
        SELECT r.type, r.created_at, r.held FROM {schema}.task AS r WHERE r.id = d.task_id LIMIT 1) AS t WHERE t.held = 'after'
    UNION ALL
    SELECT r.type, NULL FROM running AS r
) AS k GROUP BY k.type
UNION ALL
SELECT '', 0, 0, NULL, (SELECT count(*) FROM locked) >= @most OR (SELECT count(*) FROM dependent) >= @most OR (SELECT count(*) FROM running) >= @most

-- name: orphans
-- Counts the waiting rows of types, @most in each index at most, and says who declared a type last. Rows with a sequence are in two indexes: of that of
-- sequences those count that are in no other. The last column reports whether it has been read to its end.
SELECT u.type, c.waiting, c.oldest_at, c.sequenced < @most::bigint, d.last_at, coalesce(d.last_by, ''), coalesce(d.name, '')
FROM unnest(@types::text[]) AS u (type)
CROSS JOIN LATERAL (
    SELECT count(x.created_at) AS waiting, min(x.created_at) AS oldest_at, count(*) FILTER (WHERE x.sequenced) AS sequenced
    FROM (
        {rows}
        (SELECT CASE WHEN t.held = 'sequence' THEN t.created_at END AS created_at, true AS sequenced FROM {schema}.task AS t
         WHERE t.sequence IS NOT NULL AND t.type = u.type ORDER BY t.type, t.sequence LIMIT @most::bigint)
    ) AS x
) AS c
LEFT JOIN LATERAL (
    SELECT e.last_at, e.last_by, e.name FROM {schema}.declaration AS e
    WHERE e.kind = 'task' AND (e.name = u.type OR strpos(e.body->>'aliases', to_json(u.type)::text) > 0)
    ORDER BY e.last_at DESC, e.number DESC LIMIT 1) AS d ON true

-- name: cancel_orphans
SELECT {schema}.cancel_orphans(@type, @from::jsonb, @preview, @reason, @by)::text

-- name: move_orphans
SELECT {schema}.move_orphans(@type, @into, @from::jsonb, @preview, @reason, @by)::text
