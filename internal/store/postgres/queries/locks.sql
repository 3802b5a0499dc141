-- name: promote_locks
-- Lets locks go that rows have left. The function's parts have to see what has committed since it began.
SELECT promoted, noted, missed, coalesce(next_us, -1), started FROM {schema}.promote_locks(@most, @ask::jsonb)

-- name: lock_notes
-- Whether there may be something for promote_locks to do: mostly there is nothing.
SELECT EXISTS (SELECT FROM {schema}.lock_note AS n)
