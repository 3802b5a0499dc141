-- name: blockers
-- Names the sessions that a server process waits for; pid 0 is a prepared transaction. Role and application are visible
-- to every role.
SELECT coalesce(string_agg(DISTINCT CASE WHEN a.pid IS NULL THEN 'a prepared transaction'
    ELSE format('pid %s (role %s, application %s)',
    a.pid, a.usename, coalesce(nullif(a.application_name, ''), 'unknown')) END, ', '), '')
FROM unnest(pg_blocking_pids(@pid)) AS p (pid) LEFT JOIN pg_stat_activity AS a ON a.pid = p.pid

-- name: rights
SELECT current_user, current_database(), coalesce((
    SELECT pg_get_userbyid(n.nspowner) FROM pg_catalog.pg_namespace AS n WHERE n.nspname = @schema), '')

-- name: max_payload
SELECT max_payload FROM {schema}.setting
