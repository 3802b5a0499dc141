-- Whether the chunk of an archived task (a) has failed: store.ChunkFailedFor.
(a.state = 'failed' OR a.state IN ('rolled_back', 'rollback_failed') AND coalesce(a.cause, '') NOT IN ('succeeded', 'cancelled'))
