-- What those read who look again and again.

-- name: glance
-- What changes of tasks.
SELECT g.id, g.type, g.state, coalesce(g.attempt, 0)::integer, coalesce(g.deferrals, 0)::integer, coalesce(g.fence, 0)::bigint, g.run_at, g.lease_until,
    g.cancel_requested_at, g.finished_at, g.progress, coalesce(g.message, ''), coalesce(nullif(g.failed_task, g.id), 0)
FROM (
    SELECT t.id, t.type, t.state, t.attempt, t.deferrals, t.fence, t.run_at, t.lease_until, t.cancel_requested_at, NULL::timestamptz AS finished_at,
        t.progress, t.message, t.failed_task
    FROM {schema}.task AS t WHERE t.id = ANY (@ids::bigint[])
    UNION ALL
    SELECT f.id, f.type, f.state, f.attempt, f.deferrals, f.fence, f.run_at, NULL, NULL, NULL, NULL, NULL, NULL
    FROM {schema}.follow AS f WHERE f.id = ANY (@ids::bigint[])
    UNION ALL
    SELECT a.id, a.type, a.state, a.attempt, a.deferrals, a.fence, a.run_at, a.lease_until, a.cancel_requested_at, a.finished_at,
        a.progress, a.message, a.failed_task
    FROM {schema}.task_archive AS a WHERE a.id = ANY (@ids::bigint[])
) AS g
ORDER BY g.id

-- name: newest
(SELECT t.id, t.type, t.state, coalesce(t.fence, 0)::bigint FROM {schema}.task AS t ORDER BY t.id DESC LIMIT @n)
UNION ALL
(SELECT a.id, a.type, a.state, 0::bigint FROM {schema}.task_archive AS a ORDER BY a.id DESC LIMIT @n)
UNION ALL
(SELECT f.id, f.type, f.state, 0::bigint FROM {schema}.follow AS f ORDER BY f.id DESC LIMIT @n)
