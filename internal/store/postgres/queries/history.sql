-- Returns the history of a task.
SELECT h.ran_fence, coalesce(h.ran_session, h.session), coalesce(h.policy, 0), h.phase, h.attempt, h.outcome, coalesce(h.error, ''),
    coalesce(h.output, ''), h.result, h.state, h.started_at, h.ended_at, coalesce(ran.name, ''),
    CASE WHEN h.ran_session IS NULL THEN 0 ELSE h.session END, coalesce(reaper.name, '')
FROM {schema}.attempt AS h
LEFT JOIN {schema}.agent AS ran ON ran.session = coalesce(h.ran_session, h.session)
LEFT JOIN {schema}.agent AS reaper ON reaper.session = h.session AND h.ran_session IS NOT NULL
WHERE h.task_id = @id ORDER BY h.fence
