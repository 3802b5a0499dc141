-- name: pauses
-- Lists the types that are paused.
SELECT p.type, p.paused_at, coalesce(p.paused_by, ''), coalesce(p.reason, '') FROM {schema}.type_pause AS p ORDER BY p.type LIMIT 10000

-- name: pause_type
SELECT {schema}.pause(@type, @reason, @by)

-- name: resume_type
SELECT {schema}.resume(@type, @by)
