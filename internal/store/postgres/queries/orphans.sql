-- name: orphans
-- Lists the types of waiting rows that no present agent declares. It reads the hot table, as stats does.
SELECT o.type, o.waiting, o.running, o.oldest_at, o.declared_at, coalesce(o.declared_by, ''), coalesce(o.declared_as, '')
FROM {schema}.orphans AS o ORDER BY o.type LIMIT 10000

-- name: cancel_orphans
SELECT {schema}.cancel_orphans(@type, @from::jsonb, @preview, @reason, @by)::text

-- name: move_orphans
SELECT {schema}.move_orphans(@type, @into, @from::jsonb, @preview, @reason, @by)::text
