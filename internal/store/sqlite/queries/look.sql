-- name: get
-- A task as an operator sees it. After task_columns the columns are in the order of scanInfos, here and in the lists.
SELECT {task_columns error=own_error of=tasks. region=region spilled=spilled},
    finished_at, output, detached, progress, message, cancel_requested_at, cancel_requested_by, ifnull(held, ''),
    {ran_session of=tasks.},
    ifnull((SELECT name FROM agent WHERE session = {ran_session of=tasks.}), ''), ifnull(follows, 0), ifnull(failed_task, 0)
FROM tasks WHERE id = @id;

-- name: history
SELECT h.ran_fence, ifnull(h.ran_session, h.session), ifnull(h.policy, 0), h.phase, h.attempt, h.outcome, ifnull(h.error, ''),
    ifnull(h.output, ''), h.result, h.state, h.started_at, h.ended_at,
    ifnull((SELECT name FROM agent WHERE session = ifnull(h.ran_session, h.session)), ''), iif(h.ran_session IS NULL, 0, h.session),
    ifnull((SELECT name FROM agent WHERE session = h.session AND h.ran_session IS NOT NULL), '')
FROM attempt AS h WHERE h.task_id = @id ORDER BY h.fence;

-- name: list_live
-- {where} are the conditions of a filter (conditions in list.go): one text for all filters could use no index.
SELECT {task_columns error=shown_error of=task. region=ifnull(spilled_from,region) spilled=(ifnull(spilled_from,'')<>'')},
    NULL AS finished_at, NULL AS output, ifnull(detached, 0), progress, message, cancel_requested_at,
    cancel_requested_by, ifnull(held, ''),
    {ran_session of=task.},
    ifnull((SELECT name FROM agent WHERE session = {ran_session of=task.}), ''), 0, ifnull(nullif(failed_task, id), 0)
FROM task WHERE {where}
ORDER BY id DESC LIMIT @limit;

-- name: list_finished
-- As list_live, of finished tasks. {index} is empty, or INDEXED BY one of those of unsuccessful rows (unsuccessful in list.go).
SELECT {task_columns error=shown_error of=task_archive. region=region spilled=false},
    finished_at, NULL AS output, 0 AS detached, progress, message, cancel_requested_at, cancel_requested_by, '',
    {ran_session of=task_archive.},
    ifnull((SELECT name FROM agent WHERE session = {ran_session of=task_archive.}), ''), 0, ifnull(nullif(failed_task, id), 0)
FROM task_archive {index} WHERE {where}
ORDER BY id DESC LIMIT @limit;

-- name: list_followers
-- As list_live, of followers.
SELECT {task_columns error=own_error of=followers. region=region spilled=spilled},
    NULL AS finished_at, NULL AS output, 0 AS detached, NULL AS progress, NULL AS message, NULL AS cancel_requested_at,
    NULL AS cancel_requested_by, '', 0, '', ifnull(follows, 0), 0
FROM followers WHERE {where}
ORDER BY id DESC LIMIT @limit;

-- name: live_depth
-- The id that so many live rows that meet {where} come before, from the highest id down.
SELECT id FROM task WHERE {where} ORDER BY id DESC LIMIT 1 OFFSET @skip;

-- name: finished_depth
SELECT id FROM task_archive {index} WHERE {where} ORDER BY id DESC LIMIT 1 OFFSET @skip;

-- name: follower_depth
SELECT id FROM follow WHERE {where} ORDER BY id DESC LIMIT 1 OFFSET @skip;

-- name: few
-- Reports whether few rows meet conditions, each of which an index answers (window.go).
SELECT {where};

-- name: gather
-- The ids of rows that an index has.
SELECT id FROM task {index} WHERE {where};

-- name: followed_by
-- The follower of a live task; 0: none.
SELECT ifnull((SELECT f.id FROM follow AS f JOIN task AS t ON t.type = f.type AND t.key = f.key WHERE t.id = @id), 0);

-- name: declared_types
-- The types of the agents that are present. An observer (no workers) claims nothing.
SELECT types FROM agent WHERE present_until > @now AND workers > 0;

-- name: takers
-- How many agents claim tasks (a cordoned one claims none), and how many of these claim tasks of the type.
SELECT count(*), coalesce(sum(EXISTS (SELECT 1 FROM json_each(types) WHERE value = @type)), 0)
FROM agent WHERE present_until > @now AND workers > 0 AND ordered IS NULL;

-- name: count_due
-- The counts of live rows are read from one index each, and in its order: payloads cost nothing, and nothing is sorted. INDEXED
-- BY: after an ANALYZE the planner may prefer the table.
SELECT type, min(run_at), count(*) FILTER (WHERE run_at <= @now), count(*) FILTER (WHERE state = 'pending'),
    count(*) FILTER (WHERE state = 'retry_pending')
FROM task INDEXED BY task_due WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL GROUP BY type;

-- name: count_rollback
SELECT type, min(run_at), count(*) FILTER (WHERE run_at <= @now), count(*) FILTER (WHERE state = 'rollback_pending')
FROM task INDEXED BY task_rollback WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL GROUP BY type;

-- name: count_tenant_due
SELECT type, min(run_at), count(*) FILTER (WHERE run_at <= @now), count(*) FILTER (WHERE state = 'pending'),
    count(*) FILTER (WHERE state = 'retry_pending')
FROM task INDEXED BY task_tenant WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NOT NULL GROUP BY type;

-- name: count_tenant_rollback
SELECT type, min(run_at), count(*) FILTER (WHERE run_at <= @now), count(*) FILTER (WHERE state = 'rollback_pending')
FROM task INDEXED BY task_tenant_rollback WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NOT NULL GROUP BY type;

-- name: count_held
-- Rows that wait for their lock are not due, whatever run_at is.
SELECT type, NULL, 0, count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'retry_pending'),
    count(*) FILTER (WHERE state = 'rollback_pending')
FROM task INDEXED BY task_held WHERE held = 'lock' GROUP BY type;

-- name: count_turns
-- Nor are rows that wait for their turn.
SELECT type, NULL, 0, count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'retry_pending'),
    count(*) FILTER (WHERE state = 'rollback_pending')
FROM task INDEXED BY task_turns WHERE held = 'sequence' GROUP BY type;

-- name: count_after
-- Rows that wait for others are not due either.
SELECT type, NULL, 0, count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'retry_pending')
FROM task INDEXED BY task_after WHERE held = 'after' GROUP BY type;

-- name: count_running
SELECT type, min(run_at), 0, count(*) FILTER (WHERE state = 'running'), count(*) FILTER (WHERE state = 'rollback_running')
FROM task INDEXED BY task_running WHERE state IN ('running', 'rollback_running') GROUP BY type;

-- name: next_pair
-- The type and region that come next among the rows of an index ({index}, {where}; counts.go): the regions of the type, and then the next type.
SELECT type, ifnull(region, '') FROM task {index} WHERE {where} AND type = @type AND ifnull(region, '') > @region
ORDER BY ifnull(region, '') LIMIT 1;

-- name: next_type
SELECT type, ifnull(region, '') FROM task {index} WHERE {where} AND type > @type ORDER BY type, ifnull(region, '') LIMIT 1;

-- name: count_pair
-- Counts the first rows of a type and region.
SELECT count(*) FILTER (WHERE state = 'pending'), count(*) FILTER (WHERE state = 'retry_pending'),
    count(*) FILTER (WHERE state = 'rollback_pending')
FROM (SELECT state FROM task {index} WHERE {where} AND type = @type AND ifnull(region, '') = @region LIMIT @most);

-- name: count_due_of_pair
-- Counts those that are due, the first of each priority.
SELECT sum(due), min(oldest), max(due) FROM (
    WITH RECURSIVE level (p) AS (SELECT -10 UNION ALL SELECT p + 1 FROM level WHERE p < 10)
    SELECT
        (SELECT count(*) FROM (
            SELECT 1 FROM task {index}
            WHERE {where} AND type = @type AND ifnull(region, '') = @region AND priority = level.p AND run_at <= @now LIMIT @most)) AS due,
        (SELECT run_at FROM task {index}
            WHERE {where} AND type = @type AND ifnull(region, '') = @region AND priority = level.p AND run_at <= @now
            ORDER BY run_at LIMIT 1) AS oldest
    FROM level);

-- name: count_due_of_tenants
-- The same among the first rows, whose tenants come before their priorities.
SELECT count(*), min(run_at), 0
FROM (SELECT run_at FROM task {index} WHERE {where} AND type = @type AND ifnull(region, '') = @region LIMIT @most) WHERE run_at <= @now;

-- name: count_first
-- Counts the first rows of another index.
SELECT type, state, count(*) FROM (SELECT type, state FROM task {index} WHERE {where} LIMIT @most) GROUP BY type, state;

-- name: glance
-- What changes of tasks. NOT INDEXED, here and below: by id, and by nothing else.
SELECT id, type, state, attempt, deferrals, fence, run_at, lease_until, cancel_requested_at, NULL, progress, message, ifnull(nullif(failed_task, id), 0)
FROM task NOT INDEXED WHERE id IN (SELECT value FROM json_each(@ids))
UNION ALL
SELECT id, type, 'pending', 0, 0, 0, run_at, NULL, NULL, NULL, NULL, NULL, 0 FROM follow NOT INDEXED WHERE id IN (SELECT value FROM json_each(@ids))
UNION ALL
SELECT id, type, state, attempt, deferrals, fence, run_at, lease_until, cancel_requested_at, finished_at, progress, message,
    ifnull(nullif(failed_task, id), 0)
FROM task_archive NOT INDEXED WHERE id IN (SELECT value FROM json_each(@ids));

-- name: newest
-- Without a condition the planner would call it a scan; it ends after so many.
SELECT id, type, state, fence FROM (SELECT id, type, state, fence FROM task NOT INDEXED WHERE id > 0 ORDER BY id DESC LIMIT @n)
UNION ALL
SELECT id, type, state, 0 FROM (SELECT id, type, state FROM task_archive NOT INDEXED WHERE id > 0 ORDER BY id DESC LIMIT @n)
UNION ALL
SELECT id, type, 'pending', 0 FROM (SELECT id, type FROM follow NOT INDEXED WHERE id > 0 ORDER BY id DESC LIMIT @n);
