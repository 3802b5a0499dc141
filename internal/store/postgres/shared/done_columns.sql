-- What settle_done.sql and settle_done_counted.sql take of the rows that they delete, t, for done_row.
t.id, t.type, t.priority, coalesce(t.spilled_from, t.region) AS region, t.key, t.run_at, t.payload, t.labels, t.traceparent, t.created_by,
    t.max_attempts, t.created_at, t.attempt, t.fence, t.session, t.policy, t.claimed_at, t.deadline,
    t.cancel_requested_at, t.cancel_requested_by, t.message, t.progress, t.checkpoint, t.batch_id, t.round, t.cause,
    t.rollback_payload, t.lock, t.sequence, t.after, t.after_if, t.awaited, t.tenant, t.failed_task, width_bucket(t.id, @ids::bigint[]) AS place
