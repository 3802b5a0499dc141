-- Returns who holds a lock on the table, human-readable: process id, role and application of each session.
CREATE OR REPLACE FUNCTION {schema}.lock_holders(of regclass) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RETURN coalesce((
        SELECT string_agg(DISTINCT coalesce(format('pid %s (role %s, application %s)', l.pid, a.usename,
            coalesce(nullif(a.application_name, ''), 'unknown')), 'a prepared transaction'), ', ')
        FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
        WHERE l.locktype = 'relation' AND l.relation = of AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    ), 'one that has just ended');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.lock_holders(regclass) FROM PUBLIC;
