-- name: sum_batches
-- Sums deltas. The function's parts have to see what has committed since it began.
SELECT id, version, name, round, on_failure, coalesce(requested, ''), by_failure, sealed, summed, operated, task_operated,
    total, rolling_back, succeeded, failed, cancelled, rolled_back, rollback_failed, failures, failures_seen
FROM {schema}.sum_batches(@limit)

-- name: apply_fold
-- Acts on batches that were summed.
SELECT applied FROM {schema}.apply_fold(@ids, @rounds, @versions, @acts) AS applied
