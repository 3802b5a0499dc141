-- Returns the history of a task.
SELECT ran_fence, session, coalesce(policy, 0), phase, attempt, outcome, coalesce(error, ''), coalesce(output, ''), result, state,
       started_at, ended_at
FROM {schema}.attempt WHERE task_id = @id ORDER BY fence
