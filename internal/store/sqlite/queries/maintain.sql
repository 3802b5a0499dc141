-- Retention. A task of an open batch stays, one whose failure blocks its sequence, or may, one that waiting tasks name, and a batch of which a task is left.

-- name: delete_sessions
-- One that holds something may be alive, whatever the clock says: the reaper must know its presence.
DELETE FROM agent
WHERE seen_at < @before AND session NOT IN (SELECT session FROM task WHERE state IN ('running', 'rollback_running'));

-- name: expired_tasks
-- INDEXED BY: the planner knows neither that the oldest rows are the ones to remove nor how few they are.
SELECT id, finished_at FROM task_archive INDEXED BY task_archive_finished
WHERE finished_at < @before AND finished_at >= @from
    AND {may_be_removed}
ORDER BY finished_at LIMIT @limit;

-- name: still_expired
-- Which of these are still old enough and may go.
SELECT id FROM task_archive
WHERE id IN (SELECT value FROM json_each(@ids)) AND finished_at < @before AND {may_be_removed};

-- name: count_removed
UPDATE batch SET removed = removed + expired.n
FROM (
    SELECT batch_id, count(*) AS n FROM task_archive
    WHERE id IN (SELECT value FROM json_each(@ids)) AND batch_id IS NOT NULL GROUP BY batch_id) AS expired
WHERE expired.batch_id = batch.id;

-- name: delete_attempts
DELETE FROM attempt WHERE task_id IN (SELECT value FROM json_each(@ids));

-- name: delete_task_audit
DELETE FROM audit WHERE task_id IN (SELECT value FROM json_each(@ids));

-- name: delete_tasks
DELETE FROM task_archive WHERE id IN (SELECT value FROM json_each(@ids));

-- name: expired_batches
-- INDEXED BY: as of expired_tasks.
SELECT id FROM batch INDEXED BY batch_ended
WHERE ended_at < @before
    AND NOT EXISTS (SELECT 1 FROM task_archive WHERE batch_id = batch.id)
    AND NOT EXISTS (SELECT 1 FROM task WHERE batch_id = batch.id)
ORDER BY ended_at LIMIT @limit;

-- name: delete_task_operations
DELETE FROM operation WHERE task_id IS NOT NULL AND ended_at < @before;

-- name: delete_batch_operations
DELETE FROM operation WHERE batch_id IN (SELECT value FROM json_each(@ids));

-- name: delete_batch_audit
DELETE FROM audit WHERE batch_id IN (SELECT value FROM json_each(@ids));

-- name: delete_batches
DELETE FROM batch WHERE id IN (SELECT value FROM json_each(@ids));

-- name: delete_leases
-- Named leases that expired before then and that no one has taken. One whose expiry may be the effect of a jump of the clock
-- stays. INDEXED BY: as of expired_tasks.
DELETE FROM lease
WHERE fence IN (
    SELECT old.fence FROM lease AS old INDEXED BY lease_acquired
    WHERE old.acquired_at < @before AND old.expires_at < @before
        AND EXISTS (SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = old.fence)
    ORDER BY old.acquired_at LIMIT @limit);
