-- name: unblock
-- One step of the work on rows that wait for others. The function's parts have to see what has committed since it began.
SELECT freed, cancelled, worked, missed, EXISTS (SELECT FROM {schema}.dependent AS d) FROM {schema}.unblock(@most)

-- name: blocked
-- Whether there may be something for unblock to do: mostly there is nothing. And whether any row waits.
SELECT EXISTS (SELECT FROM {schema}.ended_note AS n) OR EXISTS (SELECT FROM {schema}.dependent AS d WHERE d.stage = 'look')
    OR EXISTS (SELECT FROM {schema}.dependent AS d WHERE d.stage = 'decide'),
    EXISTS (SELECT FROM {schema}.dependent AS d)

-- name: related
-- What a task waits for, and how many wait for it.
SELECT coalesce((SELECT count(DISTINCT u.id) FROM unnest(t.after) AS u (id)), 0), coalesce(t.after_if, ''), coalesce(t.cancelled_for, 0),
    (SELECT count(*) FROM {schema}.dependency AS d WHERE d.on_id = @id)
FROM {schema}.tasks AS t WHERE t.id = @id

-- name: neighbours
-- The first tasks that one names, and then those that wait for it.
SELECT false AS waits, u.id, coalesce(n.type, ''), coalesce(n.state, '')
FROM (SELECT DISTINCT e.id FROM {schema}.tasks AS t CROSS JOIN LATERAL unnest(t.after) AS e (id) WHERE t.id = @id
    ORDER BY e.id LIMIT @most) AS u
LEFT JOIN LATERAL (SELECT t.type, t.state FROM {schema}.tasks AS t WHERE t.id = u.id LIMIT 1) AS n ON true
UNION ALL
(SELECT true, d.task_id, t.type, t.state FROM {schema}.dependency AS d
    CROSS JOIN LATERAL (SELECT r.type, r.state FROM {schema}.task AS r WHERE r.id = d.task_id LIMIT 1) AS t
    WHERE d.on_id = @id ORDER BY d.task_id LIMIT @most)
ORDER BY waits, id

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
