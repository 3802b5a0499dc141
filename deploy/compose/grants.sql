-- to insert tasks and batches, RETURNING id, to look at them, and to cancel tasks
GRANT USAGE ON SCHEMA "leasehold" TO "application";
GRANT INSERT (type, payload, run_at, priority, region, key, max_attempts, labels, traceparent, created_by,
    batch_id, rollback_payload, lock, sequence, after, after_if, tenant), SELECT (id) ON "leasehold".task TO "application";
GRANT EXECUTE ON FUNCTION "leasehold".task_fits TO "application";
GRANT INSERT (name, on_failure, finish_type, finish_payload, labels, created_by, sealed), SELECT (id)
    ON "leasehold".batch TO "application";
GRANT SELECT ON "leasehold".tasks, "leasehold".batches, "leasehold".agents, "leasehold".leases, "leasehold".chunk_plans, "leasehold".chunk_passes,
    "leasehold".sequences, "leasehold".redactions, "leasehold".activities TO "application";
GRANT EXECUTE ON FUNCTION
    "leasehold".enqueue, "leasehold".enqueue_result,
    "leasehold".seal_batch(bigint), "leasehold".cancel(bigint, text), "leasehold".backlog(text) TO "application";
-- for tasks themselves: pings, and effects that happen once
GRANT EXECUTE ON FUNCTION
    "leasehold".ping(bigint, bigint, text, jsonb, text, double precision),
    "leasehold".hold(bigint, bigint), "leasehold".complete(bigint, bigint, jsonb) TO "application";
-- for schedules: to insert and change them, with ON CONFLICT (name) DO UPDATE too, and to remove them
GRANT INSERT (name, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap),
    UPDATE (task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap),
    SELECT (name, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap)
    ON "leasehold".schedule TO "application";
GRANT SELECT ON "leasehold".schedules TO "application";
GRANT EXECUTE ON FUNCTION "leasehold".remove_schedule(text, text) TO "application";
-- for named leases
GRANT EXECUTE ON FUNCTION
    "leasehold".acquire(text, text, interval), "leasehold".renew_lease(text, bigint),
    "leasehold".release_lease(text, bigint), "leasehold".hold_lease(text, bigint) TO "application";
