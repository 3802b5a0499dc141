-- Reads back a claim whose reply was lost: what it took and the session still holds.
SELECT {task_columns}
FROM {schema}.task AS t
WHERE t.session = @session AND t.claim = @number AND t.state IN ('running', 'rollback_running')
ORDER BY t.priority DESC, t.run_at, t.id
