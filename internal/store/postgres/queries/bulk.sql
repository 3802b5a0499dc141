-- Changes of all tasks that match a filter: functions/bulk.sql.

-- name: start_bulk
SELECT {schema}.start_bulk(@verb, @filter::text::jsonb, nullif(@batch::bigint, 0), @by, @reason)

-- name: stop_bulk
SELECT {schema}.stop_bulk(@id, @by)

-- name: bulks
SELECT c.id, c.version, c.verb, c.filter, coalesce(c.requested_by, ''), coalesce(c.reason, ''), c.requested_at, c.from_id, c.up_to,
    c.after_id, c.again, c.looked, c.refused, c.done, c.skipped, c.stopped, c.ended_at
FROM {schema}.bulk_change AS c WHERE {where} ORDER BY c.id LIMIT @limit

-- name: look_bulk
-- The next tasks behind an id. The condition of the finished ones is that of the index that has them by their ids, and has no others that a
-- look would have to pass over.
SELECT {bulk_row}
FROM {schema}.with_rollback() AS u, (
    (SELECT {bulk_columns of=t. finished=NULL follower=false}
     FROM {schema}.task AS t WHERE @live::boolean AND t.id > @after AND t.id <= @up_to ORDER BY t.id LIMIT @limit)
    UNION ALL
    (SELECT {bulk_columns of=f. finished=NULL follower=true}
     FROM {schema}.follow AS f WHERE @live::boolean AND f.id > @after AND f.id <= @up_to ORDER BY f.id LIMIT @limit)
    UNION ALL
    (SELECT {bulk_columns of=a. finished=a.finished_at follower=false}
     FROM {schema}.task_archive AS a WHERE {where} AND @finished::boolean AND a.id > @after AND a.id <= @up_to ORDER BY a.id LIMIT @limit)
) AS s
ORDER BY s.id LIMIT @limit

-- name: look_bulk_again
SELECT {bulk_row}
FROM {schema}.with_rollback() AS u, (
    SELECT {bulk_columns of=t. finished=NULL follower=false} FROM {schema}.task AS t WHERE t.id = ANY (@ids::bigint[])
    UNION ALL
    SELECT {bulk_columns of=f. finished=NULL follower=true} FROM {schema}.follow AS f WHERE f.id = ANY (@ids::bigint[])
    UNION ALL
    SELECT {bulk_columns of=a. finished=a.finished_at follower=false} FROM {schema}.task_archive AS a WHERE a.id = ANY (@ids::bigint[])
) AS s
ORDER BY s.id

-- name: apply_bulk
-- Applies a step. The function's parts have to see what has committed since it began.
SELECT b.applied, coalesce(b.changed, 0), coalesce(b.refused, 0), coalesce(b.missed, '{}'), coalesce(b.over, false)
FROM {schema}.apply_bulk(
    @bulk, @version, @was_id, @was_again, @was_looked, @unable, @passed, @patience, @most_again, @followers, @cancels, @cancel_fences,
    @cancel_rolls_back, @asks, @ask_fences, @revives, @revive_fences, @revive_batches) AS b

-- name: forget_bulks
DELETE FROM {schema}.bulk_change AS c WHERE c.id = ANY (ARRAY(
    SELECT o.id FROM {schema}.bulk_change AS o WHERE o.ended_at < now() - @age::bigint * interval '1 microsecond' LIMIT @limit))
