-- What a diagnosis reads: ops.Examine. Each statement is bounded in rows, and reads the hot table and the archive by their indexes.

-- name: server_health
-- What the server says of itself. What another role's session does it says only to a member of pg_read_all_stats.
SELECT now(), current_setting('server_version_num')::int, current_user::text,
    CASE WHEN pg_has_role('pg_read_all_stats', 'USAGE') THEN 0 ELSE (SELECT count(*)::int FROM pg_catalog.pg_stat_activity AS a
        WHERE a.datname = current_database() AND a.usename <> session_user AND a.state IS NULL) END,
    CASE WHEN pg_is_in_recovery() THEN 'it is a standby'
        WHEN current_setting('default_transaction_read_only')::boolean THEN 'default_transaction_read_only is on' ELSE '' END,
    CASE WHEN NOT current_setting('autovacuum')::boolean THEN 'server' WHEN NOT current_setting('track_counts')::boolean THEN 'statistics'
        WHEN EXISTS (SELECT FROM pg_catalog.pg_class AS c CROSS JOIN LATERAL unnest(c.reloptions) AS o (option)
            WHERE c.oid = to_regclass(@task) AND o.option LIKE 'autovacuum\_enabled=%' AND NOT split_part(o.option, '=', 2)::boolean)
        THEN 'table' ELSE '' END,
    coalesce(s.n_dead_tup, 0), coalesce(s.n_live_tup, 0), greatest(s.last_vacuum, s.last_autovacuum),
    (SELECT coalesce(sum(d.numbackends), 0)::int FROM pg_catalog.pg_stat_database AS d),
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true), '0')::int,
    (SELECT coalesce(sum(d.numbackends), 0)::int FROM pg_catalog.pg_stat_database AS d WHERE d.datname = current_database()),
    (SELECT d.datconnlimit FROM pg_catalog.pg_database AS d WHERE d.datname = current_database()),
    (SELECT count(*)::int FROM pg_catalog.pg_stat_activity AS a WHERE a.usename = session_user),
    (SELECT r.rolconnlimit FROM pg_catalog.pg_roles AS r WHERE r.rolname = session_user)
FROM (VALUES (0)) AS always (one) LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = to_regclass(@task)

-- name: oldest_transaction
-- The oldest transaction of the database that is open, by a session or as a prepared one.
SELECT x.since, x.pid, x.prepared, x.username, x.application, x.state FROM (
    SELECT a.xact_start AS since, a.pid, '' AS prepared, a.usename::text AS username, coalesce(a.application_name, '') AS application,
        coalesce(a.state, '') AS state
    FROM pg_catalog.pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL
    UNION ALL
    SELECT p.prepared, 0, p.gid, p.owner::text, '', 'prepared' FROM pg_catalog.pg_prepared_xacts AS p WHERE p.database = current_database()
) AS x ORDER BY x.since LIMIT 1

-- name: oldest_slot
-- The replication slot that keeps the oldest rows.
SELECT r.slot_name::text, r.active, age(r.xmin)::bigint FROM pg_catalog.pg_replication_slots AS r WHERE r.xmin IS NOT NULL ORDER BY age(r.xmin) DESC LIMIT 1

-- name: unused_slots
-- Lists replication slots that are not in use and keep more of the write-ahead log than the server would without them (extended, unreserved), or
-- @much of it, or have lost it.
SELECT x.name, greatest(x.bytes, 0), x.lost FROM (
    SELECT r.slot_name::text AS name, r.wal_status = 'lost' AS lost, r.wal_status IN ('extended', 'unreserved') AS more,
        coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, r.restart_lsn), 0)::bigint
            AS bytes
    FROM pg_catalog.pg_replication_slots AS r WHERE NOT r.active
) AS x WHERE x.lost OR x.more OR x.bytes >= @much::bigint ORDER BY x.bytes DESC, x.name LIMIT @most::integer

-- name: rights_lacking
-- Whether a role may change rows as agents do, whether it may do more than they need (as a superuser, or for the owner of the tables), and what it
-- may not use although agents have to.
SELECT has_table_privilege(to_regclass(@task), 'UPDATE') AND has_table_privilege(to_regclass(@task), 'DELETE'),
    coalesce((SELECT r.rolsuper FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user), false),
    coalesce((SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass(@task)), false),
    coalesce(array_agg(x.name), '{}')
FROM (
    SELECT 'table ' || c.relname AS name FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = to_regnamespace(@schema) AND c.relkind IN ('r', 'p', 'v') AND c.relname NOT LIKE 'task\_archive\_%' AND NOT (
        has_table_privilege(c.oid, 'SELECT') AND (c.relkind = 'v' OR c.relname IN ('schema_version', 'secret') OR has_table_privilege(c.oid, 'INSERT')
            AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')))
    UNION ALL
    SELECT 'function ' || p.proname FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace = to_regnamespace(@schema) AND p.prorettype <> 'trigger'::regtype AND NOT has_function_privilege(p.oid, 'EXECUTE')
    ORDER BY 1 LIMIT @most::integer
) AS x

-- name: undeclared_types
-- Lists the types of the waiting rows of one class that no present agent with workers declares. {where} is the condition of the index that has them. The
-- walk goes from one type to the next, by a look in the index each.
WITH RECURSIVE walk (type, n) AS (
    SELECT ''::text, 0
    UNION ALL
    SELECT f.type, k.n + 1 FROM walk AS k CROSS JOIN LATERAL (
        SELECT t.type FROM {schema}.task AS t WHERE {where} AND t.type > k.type ORDER BY t.type LIMIT 1
    ) AS f WHERE k.n < @steps::integer
)
SELECT k.type FROM walk AS k
WHERE k.n > 0 AND NOT EXISTS (SELECT FROM {schema}.agent AS a WHERE a.present_until > now() AND a.workers > 0 AND k.type = ANY (a.types))
LIMIT @most::integer

-- name: count_undeclared
-- Counts the waiting rows of a type and a class, @most at most.
SELECT count(*)::int FROM (SELECT FROM {schema}.task AS t WHERE {where} AND t.type = @type LIMIT @most::integer) AS x

-- name: idle_schedules
-- Lists schedules that do not fire when they should, those first that nobody has paused.
SELECT s.name, s.next_at, s.parked_at, s.paused_at, coalesce(s.paused_by, ''), coalesce(s.invalid, '') FROM {schema}.schedules AS s
WHERE s.parked_at IS NOT NULL OR s.paused_at IS NOT NULL OR s.invalid IS NOT NULL OR s.next_at < now() - @behind::bigint * interval '1 microsecond'
ORDER BY s.paused_at IS NOT NULL AND s.invalid IS NULL, s.name LIMIT @most::integer

-- name: blocked_sequences
-- Lists sequences that a failure blocks, by the rule of the view sequences; of those with failures the first @looked are looked at.
SELECT f.type, f.name, f.failed, (SELECT a.finished_at FROM {schema}.task_archive AS a WHERE a.id = f.failed LIMIT 1)
FROM (
    SELECT g.type, g.name, min(g.task_id) AS failed FROM {schema}.sequence_failure AS g GROUP BY g.type, g.name ORDER BY g.type, g.name
    LIMIT @looked::integer
) AS f
WHERE NOT EXISTS (SELECT FROM {schema}.sequence_rule AS p WHERE p.type = f.type AND p.on_failure = 'continue')
  AND NOT EXISTS (SELECT FROM {schema}.sequence_holder AS h JOIN {schema}.task AS o ON o.id = h.task_id AND o.type = h.type AND o.sequence = h.name
      WHERE h.type = f.type AND h.name = f.name)
  AND NOT EXISTS (SELECT FROM {schema}.task AS b WHERE b.type = f.type AND b.sequence = f.name AND b.state = 'rollback_pending')
  AND NOT EXISTS (SELECT FROM {schema}.task AS t WHERE t.type = f.type AND t.sequence = f.name AND t.id < f.failed)
ORDER BY f.type, f.name LIMIT @most::integer

-- name: failed_rollbacks
-- Lists tasks whose rollback has failed, the newest first.
SELECT a.id, a.type, a.finished_at FROM {schema}.task_archive AS a WHERE a.state = 'rollback_failed' ORDER BY a.id DESC LIMIT @most::integer

-- name: stalled_types
-- Counts by type the attempts that have stalled within @within, of the @looked attempts of the newest tasks.
SELECT y.type, count(*)::int, max(y.ended_at) FROM (
    SELECT coalesce((SELECT t.type FROM {schema}.task AS t WHERE t.id = x.task_id),
            (SELECT a.type FROM {schema}.task_archive AS a WHERE a.id = x.task_id LIMIT 1), '') AS type, x.ended_at
    FROM (
        SELECT e.task_id, e.outcome, e.ended_at FROM {schema}.attempt AS e ORDER BY e.task_id DESC, e.fence DESC LIMIT @looked::integer
    ) AS x
    WHERE x.outcome = 'stalled' AND x.ended_at > now() - @within::bigint * interval '1 microsecond'
) AS y GROUP BY y.type ORDER BY count(*) DESC, y.type LIMIT @most::integer
