-- Whether the finished task of a chunk failed for good: store.ChunkFailedFor.
({of}state NOT IN ('succeeded', 'cancelled') AND coalesce({of}cause, '') NOT IN ('succeeded', 'cancelled'))
