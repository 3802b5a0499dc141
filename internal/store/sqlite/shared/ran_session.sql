-- The session of a task: of one that is held, the one that holds it; else the one that its last attempt ran in, which is not the one that
-- settled it where it was reaped. The attempt that was settled last has the fence before the row's, until the row is claimed again.
ifnull((SELECT ran.ran_session FROM attempt AS ran WHERE ran.task_id = {of}id AND ran.fence = {of}fence - 1), {of}session)
