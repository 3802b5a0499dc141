-- What the switches of fault builds look up (faults.go).

-- name: any_fences
SELECT t.id, t.fence FROM {schema}.task AS t WHERE t.id = ANY (@ids::bigint[])

-- name: any_sessions
SELECT a.session FROM {schema}.agent AS a
