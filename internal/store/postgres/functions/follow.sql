-- Rows that follow the live row of their type and key (on_live): the table follow.

-- Makes tasks of the followers of rows that have ended for good, and returns how many. The caller has deleted these rows in the
-- same transaction. A follower is due no earlier than the time in its place: something of the row may be at work until then.
--
-- It looks in statements of its own, whose snapshots are newer than the locks on the rows: the caller's statement does not
-- see a follower whose transaction has committed while it waited for such a lock. The rows of follow are free: see there. They get a
-- fence, as revived rows do: their values were checked when they came, and by now a lower bound on payloads must not keep the row
-- before them from ending.
CREATE OR REPLACE FUNCTION {schema}.insert_followers(types text[], keys text[], until timestamptz[]) RETURNS bigint
    LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    n bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- All statements see what the first one saw. This one fails where there is a follower that they do not see
        -- (serialization_failure), so that the transaction is tried again.
        WITH tried AS (
            INSERT INTO {schema}.follow AS f (type, key, id)
            SELECT g.type, g.key, -1 - floor(random() * 4611686018427387904)::bigint FROM unnest(types, keys) AS g (type, key)
            ON CONFLICT (type, key) DO NOTHING
            RETURNING f.id
        )
        SELECT count(*) INTO n FROM tried;
        DELETE FROM {schema}.follow AS f
        USING unnest(types, keys) AS g (type, key) WHERE f.type = g.type AND f.key = g.key AND f.id < 0;
    END IF;
    PERFORM FROM unnest(types, keys) AS g (type, key)
    CROSS JOIN LATERAL (SELECT FROM {schema}.follow AS r WHERE r.type = g.type AND r.key = g.key LIMIT 1) AS f;
    IF NOT FOUND THEN
        RETURN 0; -- which is most of the time: an INSERT of no rows costs as much as one of a few
    END IF;
    WITH due AS (
        DELETE FROM {schema}.follow AS f USING unnest(types, keys, until) AS g (type, key, until)
        WHERE f.type = g.type AND f.key = g.key
        RETURNING f.id, f.type, f.key, greatest(f.run_at, g.until) AS run_at, f.created_at, f.priority, f.region, f.payload,
            f.rollback_payload, f.labels, f.traceparent, f.created_by, f.max_attempts, f.lock, f.sequence, f.awaited, f.tenant
    )
    INSERT INTO {schema}.task (id, type, key, run_at, created_at, priority, region, payload, rollback_payload, labels, traceparent,
        created_by, max_attempts, lock, sequence, awaited, tenant, fence)
    OVERRIDING SYSTEM VALUE
    SELECT d.id, d.type, d.key, d.run_at, d.created_at, d.priority, d.region, d.payload, d.rollback_payload, d.labels, d.traceparent,
        d.created_by, d.max_attempts, d.lock, d.sequence, d.awaited, d.tenant, 1
    FROM due AS d;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.insert_followers(text[], text[], timestamptz[]) FROM PUBLIC;

-- Cancels a follower, and reports whether there was one with the id: it goes to the archive. One that has just become a task is
-- none any more.
CREATE OR REPLACE FUNCTION {schema}.cancel_follower(of bigint, who text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    f     {schema}.follow;
    ended timestamptz := clock_timestamp();
BEGIN
    SELECT r.* INTO f FROM {schema}.follow AS r WHERE r.id = of;
    IF f.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM {schema}.ensure_partition(ended); -- it may wait, and no row is locked yet
    PERFORM FROM {schema}.task AS t WHERE t.type = f.type AND t.key = f.key FOR KEY SHARE;
    DELETE FROM {schema}.follow AS r WHERE r.id = of RETURNING r.* INTO f;
    IF f.id IS NULL THEN
        RETURN false;
    END IF;
    WITH leaving AS (
        SELECT f.*, coalesce(f.spilled_from, f.region) AS end_region,
            'cancelled' AS end_state, f.fence + 1 AS end_fence, f.attempt AS end_attempt, f.deferrals AS end_deferrals,
            f.ever_started AS end_ever_started, 'cancelled' AS end_outcome,
            'cancelled before it started' || coalesce(', by ' || who, '') AS end_error, f.result AS end_result, NULL AS end_output,
            NULL::timestamptz AS end_started_at, ended AS end_finished_at, f.lease_until AS end_lease_until,
            ended AS end_cancel_requested_at, who AS end_cancel_requested_by, f.message AS end_message,
            f.progress AS end_progress, f.checkpoint AS end_checkpoint
    )
    {archive_row};
    IF f.awaited THEN
        INSERT INTO {schema}.ended_note (id) VALUES (f.id);
    END IF;
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_follower(bigint, text) FROM PUBLIC;
