-- How many entries of the tenants' indexes this process of the server has read since it reported them last, which it does between transactions: the
-- difference of two of these in a statement is what was read between them. Entries that the index knows as dead are not counted. 0 where the
-- server counts nothing (track_counts).
(SELECT pg_stat_get_xact_tuples_returned(({schema_literal} || '.task_tenant')::regclass)
    + pg_stat_get_xact_tuples_returned(({schema_literal} || '.task_tenant_rollback')::regclass))
