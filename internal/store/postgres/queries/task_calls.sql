-- What operators and applications do to a task. The functions are what SQL calls, too.

-- name: cancel
SELECT {schema}.cancel(@id, @by)

-- name: retry
SELECT {schema}.retry(@id, @by, @payload)

-- name: rollback
SELECT {schema}.rollback(@id, @by)
