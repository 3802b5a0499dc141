-- The live task that a follower waits for. LIMIT: a lookup by the key, and no join.
(SELECT live.id FROM {schema}.task AS live WHERE live.type = {of}type AND live.key = {of}key LIMIT 1)
