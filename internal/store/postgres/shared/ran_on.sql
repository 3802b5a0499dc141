-- The agent of a task t, for info_columns: of one that is held, the one that holds it; else the one that its last attempt ran on, which
-- is not the one that settled it where it was reaped. The attempt that was settled last has the fence before the row's, until the row is
-- claimed again. LATERAL and LIMIT: a lookup for each row, and no join.
LEFT JOIN LATERAL (
    SELECT r.ran_session FROM {schema}.attempt AS r
    WHERE r.task_id = t.id AND r.fence = t.fence - 1 AND r.ran_session IS NOT NULL LIMIT 1) AS h ON true
LEFT JOIN {schema}.agent AS a ON a.session = coalesce(h.ran_session, t.session)
