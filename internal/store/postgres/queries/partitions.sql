-- name: missing_days
-- Returns the days around today that have no partition. @archive is the archive's name, qualified and quoted.
SELECT day::timestamp AT TIME ZONE 'UTC'
FROM (SELECT (now() AT TIME ZONE 'UTC')::date + n AS day FROM generate_series(@back::integer, @ahead::integer) AS n) AS days
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass(@archive) AND c.relname = 'task_archive_' || to_char(day, 'YYYYMMDD'))
ORDER BY day

-- name: ensure_partition
SELECT {schema}.ensure_partition(@at::timestamptz)
