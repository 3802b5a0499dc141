-- name: unblock
-- One step of the work on rows that wait for others. The function's parts have to see what has committed since it began.
SELECT freed, cancelled, revived, worked, missed, EXISTS (SELECT FROM {schema}.dependent AS d) FROM {schema}.unblock(@most)

-- name: blocked
-- Whether there may be something for unblock to do: mostly there is nothing. And whether any row waits.
SELECT {ends_left}, EXISTS (SELECT FROM {schema}.dependent AS d)

-- name: related
-- What a task waits for, how many wait for it, and how many were cancelled on account of it.
SELECT coalesce((SELECT count(DISTINCT u.id) FROM unnest(t.after) AS u (id)), 0), coalesce(t.after_if, ''), coalesce(t.cancelled_for, 0),
    (SELECT count(*) FROM {schema}.dependency AS d WHERE d.on_id = @id),
    (SELECT count(*) FROM {schema}.task_archive AS c WHERE c.cancelled_for = @id)
FROM {schema}.tasks AS t WHERE t.id = @id

-- name: neighbours
-- The first tasks that one names, then those that wait for it, and those that were cancelled on account of it, with what is in the way of
-- their revival. A retry of the task reopens its own batch.
SELECT 0 AS kind, u.id, coalesce(n.type, ''), coalesce(n.state, ''), ''
FROM (SELECT DISTINCT e.id FROM {schema}.tasks AS t CROSS JOIN LATERAL unnest(t.after) AS e (id) WHERE t.id = @id
    ORDER BY e.id LIMIT @most) AS u
LEFT JOIN LATERAL (SELECT t.type, t.state FROM {schema}.tasks AS t WHERE t.id = u.id LIMIT 1) AS n ON true
UNION ALL
(SELECT 1, d.task_id, t.type, t.state, '' FROM {schema}.dependency AS d
    CROSS JOIN LATERAL (SELECT r.type, r.state FROM {schema}.task AS r WHERE r.id = d.task_id LIMIT 1) AS t
    WHERE d.on_id = @id ORDER BY d.task_id LIMIT @most)
UNION ALL
SELECT 2, c.id, c.type, c.state, coalesce({revival_barred of=c.}, '') FROM (
    SELECT a.id, a.type, a.state, a.key, CASE WHEN a.batch_id IS DISTINCT FROM @batch THEN a.batch_id END AS batch_id
    FROM {schema}.task_archive AS a WHERE a.cancelled_for = @id ORDER BY a.id LIMIT @most) AS c
ORDER BY kind, id

-- name: predecessors
-- The first tasks by id that one names, one more than a run gets to know, with their results as far as they are no more than so many
-- bytes together, and how many that are.
SELECT s.id, s.type, s.state, CASE WHEN s.bytes <= @bytes THEN s.result END, s.bytes FROM (
    SELECT u.id, coalesce(n.type, '') AS type, coalesce(n.state, '') AS state, n.result,
        coalesce(sum(octet_length(n.result::text)) OVER (ORDER BY u.id), 0) AS bytes
    FROM (SELECT DISTINCT e.id FROM {schema}.task AS t CROSS JOIN LATERAL unnest(t.after) AS e (id) WHERE t.id = @id
        ORDER BY e.id LIMIT @most) AS u
    LEFT JOIN LATERAL (SELECT t.type, t.state, t.result FROM {schema}.tasks AS t WHERE t.id = u.id LIMIT 1) AS n ON true) AS s
ORDER BY s.id
