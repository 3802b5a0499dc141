-- The error of a task as users see it. A row has that of its last attempt. Of a task that is being rolled back or was, this may be an
-- attempt to roll it back, whose success has none: then it is the error of the last attempt of its run, for which it is rolled back.
CASE WHEN {of}state IN ('rollback_pending', 'rollback_running', 'rolled_back')
        AND (SELECT h.phase FROM {schema}.attempt AS h WHERE h.task_id = {of}id ORDER BY h.fence DESC LIMIT 1) = 'rollback'
    THEN (SELECT h.error FROM {schema}.attempt AS h WHERE h.task_id = {of}id AND h.phase = 'run' ORDER BY h.fence DESC LIMIT 1)
    ELSE {of}error END
