-- name: batch_tasks
-- Counts the tasks of batches that have not ended: what folds have summed, and the deltas since.
SELECT coalesce(sum(n.total - n.running - n.rolling_back - n.succeeded - n.failed - n.cancelled - n.rolled_back
        - n.rollback_failed), 0)::bigint,
    coalesce(sum(n.running), 0)::bigint, coalesce(sum(n.rolling_back), 0)::bigint,
    coalesce(sum(n.succeeded), 0)::bigint, coalesce(sum(n.failed), 0)::bigint,
    coalesce(sum(n.cancelled), 0)::bigint, coalesce(sum(n.rolled_back), 0)::bigint,
    coalesce(sum(n.rollback_failed), 0)::bigint
FROM (
    SELECT total, running, succeeded, failed, cancelled, rolling_back, rolled_back, rollback_failed FROM {schema}.batch
    WHERE ended_at IS NULL
    UNION ALL
    SELECT d.total, d.running, d.succeeded, d.failed, d.cancelled, d.rolling_back, d.rolled_back, d.rollback_failed
    FROM {schema}.batch_delta AS d JOIN {schema}.batch AS b ON b.id = d.batch_id AND b.ended_at IS NULL
) AS n

-- name: stats
-- The hot table by type and state, with the age in microseconds of the oldest row that is due; one that waits for its lock is not.
SELECT type, state, count(*), count(*) FILTER (WHERE run_at <= now() AND held IS NULL), (extract(epoch FROM now() - min(run_at) FILTER (WHERE run_at <= now() AND held IS NULL)) * 1000000)::bigint
FROM {schema}.task GROUP BY type, state ORDER BY type, state
