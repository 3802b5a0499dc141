-- Finds the newest rows of a batch that failed, store.BatchFailuresRead, and why: of a row that is or was rolled back for it, what its last run
-- said. Rows that are being rolled back are found by the indexes of what waits for that, without and with a tenant, of what is held
-- back, and of what runs: "+ 0" keeps the planner from the index of batches, where a million rows can wait. The first condition on
-- the state of what runs is that of task_running, which the planner does not infer from the second. The limit is a constant: for a
-- parameter the planner would read in parallel, and sort.
SELECT f.id, left(CASE WHEN f.was_rolled_back THEN h.error ELSE f.error END, 1024) FROM (
    (SELECT a.id, a.error, a.state = 'rolled_back' AS was_rolled_back FROM {schema}.task_archive AS a
     WHERE a.batch_id IS NOT NULL AND (a.batch_id, a.id) > (@id::bigint, 0) AND (a.batch_id, a.id) < (@id::bigint + 1, 0)
       AND {has_failed of=a.}
     ORDER BY a.batch_id DESC, a.id DESC LIMIT 2000)
    UNION ALL
    (SELECT t.id, t.error, true FROM {schema}.task AS t
     WHERE t.state = 'rollback_pending' AND t.held IS NULL AND t.tenant IS NULL AND t.batch_id + 0 = @id
       AND coalesce(t.cause, '') NOT IN ('succeeded', 'cancelled')
     ORDER BY t.id DESC LIMIT 2000)
    UNION ALL
    (SELECT t.id, t.error, true FROM {schema}.task AS t
     WHERE t.state = 'rollback_pending' AND t.held IS NULL AND t.tenant IS NOT NULL AND t.batch_id + 0 = @id
       AND coalesce(t.cause, '') NOT IN ('succeeded', 'cancelled')
     ORDER BY t.id DESC LIMIT 2000)
    UNION ALL
    (SELECT t.id, t.error, true FROM {schema}.task AS t
     WHERE t.state = 'rollback_pending' AND t.held IS NOT NULL AND t.batch_id + 0 = @id
       AND coalesce(t.cause, '') NOT IN ('succeeded', 'cancelled')
     ORDER BY t.id DESC LIMIT 2000)
    UNION ALL
    (SELECT t.id, t.error, true FROM {schema}.task AS t
     WHERE t.state IN ('running', 'rollback_running') AND t.state = 'rollback_running' AND t.batch_id + 0 = @id
       AND coalesce(t.cause, '') NOT IN ('succeeded', 'cancelled')
     ORDER BY t.id DESC LIMIT 2000)
) AS f LEFT JOIN LATERAL (
    SELECT r.error FROM {schema}.attempt AS r
    WHERE f.was_rolled_back AND r.task_id = f.id AND r.phase = 'run' ORDER BY r.fence DESC LIMIT 1
) AS h ON true
ORDER BY f.id DESC LIMIT 2000
