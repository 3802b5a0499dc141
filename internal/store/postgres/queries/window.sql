-- name: window
-- Returns the lowest of the ids that a list looks through at once, @skip + 1 in each table at most, the highest first; 0: that is all of them.
-- {live}, {finished}, {or_finished} and {followers} are conditions for which an index has the ids in their order (window.go). Of two that finished
-- tasks have to meet, the one counts that leads further, and the second column reports whether it is the first.
SELECT coalesce(greatest(
        (SELECT t.id FROM {schema}.task AS t WHERE {live} ORDER BY t.id DESC OFFSET @skip LIMIT 1),
        CASE WHEN f.a IS NOT NULL AND f.b IS NOT NULL THEN least(f.a, f.b) END,
        (SELECT t.id FROM {schema}.follow AS t WHERE {followers} ORDER BY t.id DESC OFFSET @skip LIMIT 1)), 0),
    coalesce(f.a, 0) < coalesce(f.b, 0)
FROM (SELECT
    (SELECT t.id FROM {schema}.task_archive AS t WHERE {finished} ORDER BY {order} DESC OFFSET @skip LIMIT 1) AS a,
    (SELECT t.id FROM {schema}.task_archive AS t WHERE {or_finished} ORDER BY {other} DESC OFFSET @skip LIMIT 1) AS b
) AS f

-- name: span
-- Returns the bounds of the ids of a batch's tasks; 0: not known.
SELECT coalesce(least(b.first_id, d.first_id), 0), coalesce(greatest(b.last_id, d.last_id), 0)
FROM (VALUES (0)) AS always (one)
LEFT JOIN {schema}.batch AS b ON b.id = @batch
CROSS JOIN LATERAL (
    SELECT min(g.first_id) AS first_id, max(g.last_id) AS last_id FROM {schema}.batch_delta AS g WHERE g.batch_id = @batch
) AS d

-- name: few
-- Reports whether few rows meet conditions ({few}, window.go), each of which an index answers.
SELECT {few}
