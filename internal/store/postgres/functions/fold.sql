-- A fold sums the deltas of batches, acts on failures and ends what is done: once a second or so, by any agent. A batch
-- that is locked is left for another time.

-- Does what has to follow a failure, and reports whether anything does. A batch that is being stopped gets another
-- operation where rows have come that its transaction could not see: from one with an older snapshot.
CREATE OR REPLACE FUNCTION {schema}.follow_failure(b {schema}.batch) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
BEGIN
    IF b.requested IS NULL AND b.failures > b.failures_seen THEN
        IF b.on_failure <> 'continue' THEN
            PERFORM {schema}.start_operation(b.id, b.on_failure, 'on_failure', false,
                CASE b.on_failure WHEN 'cancel' THEN 'cancelling' ELSE 'rolling_back' END);
            RETURN true;
        END IF;
        UPDATE {schema}.batch AS r SET failures_seen = r.failures WHERE r.id = b.id;
    ELSIF b.requested IS NOT NULL
        AND b.total - b.succeeded - b.failed - b.cancelled - b.rolled_back - b.rollback_failed > b.rolling_back
        AND NOT EXISTS (SELECT FROM {schema}.operation AS o
                        WHERE o.batch_id = b.id AND o.task_id IS NULL AND o.ended_at IS NULL) THEN
        INSERT INTO {schema}.operation (verb, batch_id, requested_at, requested_by) VALUES (b.requested, b.id,
            clock_timestamp(), b.requested_by);
    END IF;
    RETURN false;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.follow_failure({schema}.batch) FROM PUBLIC;

-- Ends a batch, which the caller has locked, if nothing of it is left to do and nothing can come, and reports whether it
-- did. The row of finish_type is inserted in the same transaction.
CREATE OR REPLACE FUNCTION {schema}.end_batch(b {schema}.batch) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    v record;
BEGIN
    IF NOT b.sealed OR b.total <> b.succeeded + b.failed + b.cancelled + b.rolled_back + b.rollback_failed
        OR EXISTS (SELECT FROM {schema}.operation AS o WHERE o.batch_id = b.id AND o.ended_at IS NULL) THEN
        RETURN false;
    END IF;
    -- A transaction that has inserted a row and not committed holds the batch FOR KEY SHARE. What has committed by now,
    -- the next statement sees.
    PERFORM FROM {schema}.batch AS r WHERE r.id = b.id FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR EXISTS (SELECT FROM {schema}.batch_delta AS d WHERE d.batch_id = b.id) THEN
        UPDATE {schema}.batch AS r SET needs_fold = true WHERE r.id = b.id;
        RETURN false;
    END IF;
    UPDATE {schema}.batch AS r SET ended_at = clock_timestamp() WHERE r.id = b.id;
    IF b.finish_type IS NOT NULL THEN
        SELECT r.* INTO v FROM {schema}.batches AS r WHERE r.id = b.id;
        INSERT INTO {schema}.task (type, payload, created_by)
        VALUES (b.finish_type, b.finish_payload || jsonb_build_object('batch', jsonb_build_object(
            'id', v.id, 'name', v.name, 'state', v.state, 'round', v.round, 'total', v.total, 'succeeded', v.succeeded,
            'failed', v.failed, 'cancelled', v.cancelled, 'rolled_back', v.rolled_back,
            'rollback_failed', v.rollback_failed)), 'leasehold');
    END IF;
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.end_batch({schema}.batch) FROM PUBLIC;

-- Folds so many batches at most: of those with deltas, and of those that need a look anyway. They come in random order,
-- so that some that cannot be ended yet do not keep the others from it. Returns one row for each batch that was looked
-- at.
CREATE OR REPLACE FUNCTION {schema}.fold(most bigint) RETURNS TABLE (
    acted boolean, ended boolean, id bigint, name text, state text, requested text, round integer, total bigint,
        succeeded bigint,
    failed bigint, cancelled bigint, rolled_back bigint, rollback_failed bigint
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
#variable_conflict use_column
DECLARE
    b      {schema}.batch;
    one    bigint;
    acts   boolean;
    ends   boolean;
    all_of boolean;
BEGIN
    FOR one IN
        -- One step along the index of deltas for each batch: DISTINCT would read every delta.
        WITH RECURSIVE counted (id) AS (
            (SELECT d.batch_id FROM {schema}.batch_delta AS d ORDER BY d.batch_id LIMIT 1)
            UNION ALL
            SELECT (SELECT d.batch_id FROM {schema}.batch_delta AS d WHERE d.batch_id > c.id ORDER BY d.batch_id LIMIT 1)
            FROM counted AS c WHERE c.id IS NOT NULL
        )
        SELECT u.id FROM (
            SELECT c.id FROM (SELECT c.id FROM counted AS c WHERE c.id IS NOT NULL LIMIT most) AS c
            UNION
            SELECT l.id FROM (SELECT r.id FROM {schema}.batch AS r WHERE r.needs_fold ORDER BY random() LIMIT most) AS l
        ) AS u ORDER BY random() LIMIT most
    LOOP
        SELECT r.* INTO b FROM {schema}.batch AS r WHERE r.id = one FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN b.id IS NULL;
        IF b.needs_fold THEN
            UPDATE {schema}.batch AS r SET needs_fold = false WHERE r.id = one;
        END IF;
        all_of := {schema}.sum_deltas(one, 20000);
        SELECT r.* INTO b FROM {schema}.batch AS r WHERE r.id = one;
        CONTINUE WHEN b.ended_at IS NOT NULL;
        acts := {schema}.follow_failure(b);
        ends := all_of AND {schema}.end_batch(b);
        RETURN QUERY SELECT acts, ends, v.id, v.name, v.state, r.requested, v.round, v.total, v.succeeded, v.failed,
            v.cancelled,
            v.rolled_back, v.rollback_failed
        FROM (SELECT) AS anyway LEFT JOIN ({schema}.batches AS v JOIN {schema}.batch AS r ON r.id = v.id)
            ON v.id = one AND (acts OR ends);
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.fold(bigint) FROM PUBLIC;
