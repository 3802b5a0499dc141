-- Why a row is cancelled that waited for the task {of}, which ended in that state; NULL: it is past its retention.
format('task %s %s', {of}, CASE {state} WHEN 'failed' THEN 'failed' WHEN 'cancelled' THEN 'was cancelled'
    WHEN 'rolled_back' THEN 'was rolled back' WHEN 'split' THEN 'was split' WHEN 'rollback_failed' THEN 'could not be rolled back'
    ELSE 'is past its retention' END)
