-- Moves a live row, as the caller has changed it, to the archive, inserts its follower, and notes that its lock is free, and that it
-- has ended if others wait for that. Agents create
-- the archive's partitions ahead; where no agent has run for days, today's is created here.
CREATE OR REPLACE FUNCTION {schema}.archive(t {schema}.task, began timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
BEGIN
    PERFORM {schema}.ensure_partition(ended);
    DELETE FROM {schema}.task AS r WHERE r.id = t.id;
    WITH leaving AS (
        SELECT t.*, coalesce(t.spilled_from, t.region) AS end_region,
            t.state AS end_state, t.fence AS end_fence, t.attempt AS end_attempt, t.deferrals AS end_deferrals,
            t.ever_started AS end_ever_started, t.outcome AS end_outcome, t.error AS end_error, t.result AS end_result,
            NULL AS end_output, began AS end_started_at, ended AS end_finished_at, t.lease_until AS end_lease_until,
            t.cancel_requested_at AS end_cancel_requested_at, t.cancel_requested_by AS end_cancel_requested_by,
            t.message AS end_message, t.progress AS end_progress, t.checkpoint AS end_checkpoint
    )
    {archive_row};
    IF t.lock IS NOT NULL THEN
        INSERT INTO {schema}.lock_note (name) VALUES (t.lock);
    END IF;
    IF t.awaited THEN
        INSERT INTO {schema}.ended_note (id) VALUES (t.id);
    END IF;
    IF t.key IS NOT NULL THEN
        PERFORM {schema}.insert_followers(ARRAY[t.type], ARRAY[t.key], ARRAY[t.lease_until]);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.archive({schema}.task, timestamptz) FROM PUBLIC;
