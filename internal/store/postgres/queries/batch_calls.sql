-- What operators and applications do to batches. The functions are what SQL calls, too.

-- name: seal_batch
SELECT {schema}.seal_batch(@id)

-- name: cancel_batch
SELECT {schema}.cancel_batch(@id, @by)

-- name: retry_batch
SELECT {schema}.retry_batch(@id, @by)

-- name: rollback_batch
SELECT {schema}.rollback_batch(@id, @by, @force)
