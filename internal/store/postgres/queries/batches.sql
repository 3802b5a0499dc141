-- name: is_batch
-- Returns a batch's id, if there is such a batch.
SELECT b.id FROM {schema}.batch AS b WHERE b.id = @id

-- name: batches
-- Returns batches, newest first. {where} is made from the filters that are set. A batch is looked at closely only once it
-- is one of those that match.
SELECT b.id, b.name, b.state, b.on_failure, b.sealed, b.stopping, b.round, b.total, b.live, b.waiting, b.running,
    b.rolling_back,
    b.succeeded, b.failed, b.cancelled, b.rolled_back, b.rollback_failed, b.failures, b.progress, coalesce(b.finish_type,
        ''), b.labels,
    coalesce(b.created_by, ''), b.created_at, b.ended_at, coalesce(b.operation, ''), coalesce(b.requested_by, ''),
    coalesce(o.refused, 0)
FROM {schema}.batches AS b
LEFT JOIN LATERAL (
    SELECT o.refused FROM {schema}.operation AS o
    WHERE o.batch_id = b.id AND o.task_id IS NULL ORDER BY o.id DESC LIMIT 1
) AS o ON true
WHERE {where} ORDER BY b.id DESC LIMIT @limit
