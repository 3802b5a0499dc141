-- The number of the attempt that a claim begins, cut as the fence.
CASE WHEN task.attempt BETWEEN 0 AND 1000000 THEN task.attempt ELSE max(min(task.attempt, 1000000), 0) END + 1
