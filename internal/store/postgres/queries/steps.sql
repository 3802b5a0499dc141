-- name: fold
-- Folds batches. The function's parts have to see what has committed since it began.
SELECT acted, ended, coalesce(id, 0), coalesce(name, ''), coalesce(state, ''), coalesce(requested, ''), coalesce(round, 0),
    coalesce(total, 0), coalesce(succeeded, 0), coalesce(failed, 0), coalesce(cancelled, 0), coalesce(rolled_back, 0),
    coalesce(rollback_failed, 0)
FROM {schema}.fold(@limit)

-- name: step
-- Carries on the oldest operation. The function's parts have to see what has committed since it began.
SELECT there_are, changed, over, coalesce(of_verb, ''), coalesce(of_batch, 0), coalesce(of_task, 0), coalesce(all_done, 0),
    coalesce(all_refused, 0)
FROM {schema}.step(@limit)
