-- Whether a finished row failed, also if it was rolled back since (batch.HasFailed), or could not be rolled back: the condition
-- of the index task_archive_batch_failed, which the planner takes only for queries that imply it.
({of}state IN ('failed', 'rollback_failed')
        OR {of}state = 'rolled_back' AND coalesce({of}cause, '') NOT IN ('succeeded', 'cancelled'))
