-- Moves a live row, as the caller has changed it, to the archive. Agents create the archive's partitions ahead; where no
-- agent has run for days, today's is created here.
CREATE OR REPLACE FUNCTION {schema}.archive(t {schema}.task, began timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
BEGIN
    PERFORM {schema}.ensure_partition(ended);
    DELETE FROM {schema}.task AS r WHERE r.id = t.id;
    INSERT INTO {schema}.task_archive (
        id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, attempt, deferrals, ever_started, fence, session, policy, lease_until, claimed_at, deadline, outcome,
            error,
        result, started_at, finished_at, cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round, cause,
        rollback_payload)
    VALUES (t.id, t.type, t.state, t.priority, t.region, t.key, t.run_at, t.payload, t.labels, t.traceparent,
        t.created_by, t.max_attempts, t.created_at, t.attempt, t.deferrals, t.ever_started, t.fence, t.session, t.policy,
        t.lease_until, t.claimed_at, t.deadline, t.outcome, t.error, t.result, began, ended, t.cancel_asked, t.cancel_by,
        t.message, t.progress, t.checkpoint, t.batch_id, t.round, t.cause, t.rollback_payload);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.archive({schema}.task, timestamptz) FROM PUBLIC;
