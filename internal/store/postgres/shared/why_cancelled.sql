-- Why a row is cancelled that waited for the task {of}, which did not succeed.
(SELECT format('task %s ', {of}) || coalesce((
    SELECT CASE a.state WHEN 'failed' THEN 'failed' WHEN 'cancelled' THEN 'was cancelled' WHEN 'rolled_back' THEN 'was rolled back'
        WHEN 'split' THEN 'was split' ELSE 'could not be rolled back' END
    FROM {schema}.task_archive AS a WHERE a.id = {of} LIMIT 1), 'is past its retention'))
