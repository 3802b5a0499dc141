-- Taking old days out of the archive. {table} is the table of one day.

-- name: day_tables
-- Tables of days, attached or not. One that is not attached was being removed when its agent ended: removal goes on from
-- there.
SELECT c.relname, i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false), c.reltuples,
    pg_catalog.pg_has_role(c.relowner, 'USAGE'), now()
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_inherits AS i ON i.inhrelid = c.oid
WHERE n.nspname = @schema AND c.relkind = 'r' AND c.relname ~ '^task_archive_[0-9]{8}$'
ORDER BY c.relname

-- name: lock_removal
-- One agent at a time removes days; partitions can be created meanwhile.
LOCK TABLE {schema}.removal IN SHARE ROW EXCLUSIVE MODE NOWAIT

-- name: detach
-- This waits for every statement on the archive, and blocks none: where it takes longer than a statement may, it stays
-- pending, and the next call finishes it.
ALTER TABLE {schema}.task_archive DETACH PARTITION {schema}.{table} CONCURRENTLY

-- name: finalize
ALTER TABLE {schema}.task_archive DETACH PARTITION {schema}.{table} FINALIZE

-- name: drop
DROP TABLE IF EXISTS {schema}.{table}

-- name: detach_as_owner
-- For agents that do not own the schema, as the next.
SELECT {schema}.detach_partition(@day::date)

-- name: drop_as_owner
SELECT {schema}.drop_partition(@day::date)

-- name: count_day
SELECT count(*) FROM {schema}.{table}

-- name: day_batches
-- The batches that have rows in a day's table, each found by one step along the index.
WITH RECURSIVE b (id) AS (
    SELECT (SELECT a.batch_id FROM {schema}.{table} AS a WHERE a.batch_id IS NOT NULL ORDER BY a.batch_id LIMIT 1)
    UNION ALL
    SELECT (SELECT a.batch_id FROM {schema}.{table} AS a WHERE a.batch_id > b.id ORDER BY a.batch_id LIMIT 1)
    FROM b WHERE b.id IS NOT NULL
)
SELECT id FROM b WHERE id IS NOT NULL

-- name: day_failures
-- Whether a day has failures that block their sequences, or may.
SELECT EXISTS (SELECT FROM {schema}.sequence_failure AS f JOIN {schema}.{table} AS a ON a.id = f.task_id)

-- name: day_named
-- Rows of a day that waiting rows name. Each is looked up: there may be many days, and few rows that wait.
SELECT DISTINCT a.id FROM {schema}.dependent AS d
CROSS JOIN LATERAL (SELECT t.after FROM {schema}.task AS t WHERE t.id = d.task_id AND t.held = 'after' LIMIT 1) AS t
CROSS JOIN LATERAL unnest(t.after) AS u (id)
CROSS JOIN LATERAL (SELECT r.id FROM {schema}.{table} AS r WHERE r.id = u.id LIMIT 1) AS a

-- name: lock_ended
-- A transaction that reopens a batch locks its row, too. So either that comes first, and the day stays; or it comes
-- later, and sees that rows of the batch are past their retention, removed or not.
SELECT b.id FROM {schema}.batch AS b WHERE b.id = ANY (@ids::bigint[]) AND b.ended_at IS NOT NULL
ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED

-- name: count_batches
SELECT count(*) FROM {schema}.batch AS b WHERE b.id = ANY (@ids::bigint[])

-- name: mark_expired
UPDATE {schema}.batch AS b SET rows_expired = true WHERE b.id = ANY (@ids::bigint[]) AND NOT b.rows_expired
