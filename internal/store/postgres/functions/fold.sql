-- A fold sums the deltas of batches, and does what follows: once a second or so, by any agent. internal/batch decides what
-- follows. A batch that is locked is left for another time.

-- Sums the deltas of so many batches at most: of those with deltas, and of those that are marked. They come in random order,
-- so that some that cannot be ended yet do not keep the others from it. Returns those that have not ended. Each for which
-- there is something to do stays marked by needs_fold, also if the caller dies now. Conclude of internal/batch decides what
-- that is; the rule for the mark is the same, and a test compares them.
CREATE OR REPLACE FUNCTION {schema}.sum_batches(most bigint) RETURNS TABLE (
    id bigint, version text, name text, round integer, on_failure text, requested text, by_failure boolean, sealed boolean,
    summed boolean, operated boolean, task_operated boolean, total bigint, rolling_back bigint, succeeded bigint,
    failed bigint, cancelled bigint, rolled_back bigint, rollback_failed bigint, failures bigint, failures_seen bigint
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
#variable_conflict use_column
DECLARE
    one    bigint;
    b      record;
    live   bigint;
    all_of boolean;
    marked boolean;
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
        PERFORM FROM {schema}.batch AS r WHERE r.id = one FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        all_of := {schema}.sum_deltas(one, 20000);
        SELECT r.*,
            EXISTS (SELECT FROM {schema}.operation AS o
                    WHERE o.batch_id = r.id AND o.task_id IS NULL AND o.ended_at IS NULL) AS operated,
            EXISTS (SELECT FROM {schema}.operation AS o
                    WHERE o.batch_id = r.id AND o.task_id IS NOT NULL AND o.ended_at IS NULL)
                OR EXISTS (SELECT FROM {schema}.revived_note AS n WHERE n.batch_id = r.id) AS task_operated
        INTO b FROM {schema}.batch AS r WHERE r.id = one;
        live := b.total - b.succeeded - b.failed - b.cancelled - b.rolled_back - b.rollback_failed;
        marked := b.ended_at IS NULL AND (
            b.requested IS NULL AND b.on_failure <> 'continue' AND b.failures > b.failures_seen
            OR b.requested IS NOT NULL AND live > b.rolling_back AND NOT b.operated
            OR b.sealed AND all_of AND live = 0 AND NOT b.operated AND NOT b.task_operated);
        IF b.needs_fold <> marked THEN
            UPDATE {schema}.batch AS r SET needs_fold = marked WHERE r.id = one;
        END IF;
        RETURN QUERY SELECT r.id, r.xmin::text, r.name, r.round, r.on_failure, r.requested, r.by_failure, r.sealed,
            all_of, b.operated, b.task_operated, r.total, r.rolling_back, r.succeeded,
            r.failed, r.cancelled, r.rolled_back, r.rollback_failed, r.failures, r.failures_seen
        FROM {schema}.batch AS r WHERE r.id = one AND r.ended_at IS NULL;
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.sum_batches(bigint) FROM PUBLIC;

-- Applies what follows to batches that are in the round and, except where a failure is followed, at the version that were
-- seen. Returns those to which it was applied. Batches that are stopped lock their gates at the commit, in the order in which
-- they come here.
CREATE OR REPLACE FUNCTION {schema}.apply_fold(ids bigint[], rounds integer[], versions text[], acts text[])
    RETURNS SETOF bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    c record;
    b {schema}.batch;
BEGIN
    FOR c IN
        SELECT u.id, u.round, u.version, u.act FROM unnest(ids, rounds, versions, acts) AS u (id, round, version, act)
        ORDER BY u.id % 8, u.id
    LOOP
        -- A transaction that has inserted a row and not committed holds the batch FOR KEY SHARE, which keeps it from ending.
        -- What has committed by now, the next statement sees.
        IF c.act = 'end' THEN
            PERFORM FROM {schema}.batch AS r WHERE r.id = c.id FOR UPDATE SKIP LOCKED;
        ELSE
            PERFORM FROM {schema}.batch AS r WHERE r.id = c.id FOR NO KEY UPDATE SKIP LOCKED;
        END IF;
        CONTINUE WHEN NOT FOUND;
        SELECT r.* INTO b FROM {schema}.batch AS r
        WHERE r.id = c.id AND r.ended_at IS NULL AND r.round = c.round AND (c.act = 'follow' OR r.xmin::text = c.version);
        CONTINUE WHEN NOT FOUND;
        CASE c.act
            WHEN 'follow' THEN
                CONTINUE WHEN b.requested IS NOT NULL;
                PERFORM {schema}.start_operation(b.id, b.on_failure, 'on_failure', false,
                    CASE b.on_failure WHEN 'cancel' THEN 'cancelling' ELSE 'rolling_back' END);
            WHEN 'resume' THEN
                -- Rows have come that the operation's transaction could not see: from one with an older snapshot.
                INSERT INTO {schema}.operation (verb, batch_id, requested_at, requested_by)
                SELECT b.requested, b.id, clock_timestamp(), b.requested_by
                WHERE NOT EXISTS (SELECT FROM {schema}.operation AS o
                                  WHERE o.batch_id = b.id AND o.task_id IS NULL AND o.ended_at IS NULL);
                CONTINUE WHEN NOT FOUND;
            WHEN 'end' THEN
                CONTINUE WHEN NOT {schema}.end_batch(b);
        END CASE;
        RETURN NEXT c.id;
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.apply_fold(bigint[], integer[], text[], text[]) FROM PUBLIC;

-- Ends a batch that is done, which the caller has locked FOR UPDATE, and reports whether it did: not if something was counted
-- or requested since. The row of finish_type is inserted in the same transaction.
CREATE OR REPLACE FUNCTION {schema}.end_batch(b {schema}.batch) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    v record;
BEGIN
    IF EXISTS (SELECT FROM {schema}.operation AS o WHERE o.batch_id = b.id AND o.ended_at IS NULL)
        OR EXISTS (SELECT FROM {schema}.revived_note AS n WHERE n.batch_id = b.id)
        OR EXISTS (SELECT FROM {schema}.batch_delta AS d WHERE d.batch_id = b.id) THEN
        RETURN false;
    END IF;
    UPDATE {schema}.batch AS r SET ended_at = clock_timestamp(), needs_fold = false WHERE r.id = b.id;
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
