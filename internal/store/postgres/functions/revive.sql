-- Moves finished rows back to the live table, to run again ('retry') or to be rolled back ('rollback'), and returns their
-- ids, sorted. Each is due at the time in its place, and not before every earlier attempt is over. Locked rows are
-- skipped, and rows whose key another live row has. A run that succeeded at its first try gets its row of the history
-- now; all others got theirs when they were settled. One that has never started waits anew for those that it names in after. If others were
-- cancelled on account of a row that is retried, a note says that they are to be revived, too (revived_note). The cause of a rollback is Go's task.Cause; a check compares the two.
CREATE OR REPLACE FUNCTION {schema}.revive(
    ids bigint[], dues timestamptz[], verb text, fences bigint[] DEFAULT NULL
) RETURNS SETOF bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    revived bigint[];
BEGIN
    WITH hit AS MATERIALIZED (
        SELECT a.*, g.due, verb = 'retry' AS again FROM unnest(ids, dues, fences) AS g (id, due, fence)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.task_archive AS r WHERE r.id = g.id AND (fences IS NULL OR r.fence = g.fence)
            FOR UPDATE SKIP LOCKED
        ) AS a
    ), back AS (
        INSERT INTO {schema}.task (
            id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, ever_started, fence, session, policy, deadline, outcome, error, result, message, progress, checkpoint,
            lease_until, batch_id, round, cause, rollback_payload, lock, sequence, after, after_if, held, tenant,
            failed_task)
        OVERRIDING SYSTEM VALUE
        SELECT h.id, h.type, CASE WHEN h.again THEN 'pending' ELSE 'rollback_pending' END, h.priority, h.region, h.key,
            greatest(h.due, h.lease_until), h.payload, h.labels, h.traceparent,
            h.created_by, h.max_attempts, h.created_at, h.ever_started AND h.state <> 'rolled_back', h.fence + 1, h.session,
            h.policy, CASE WHEN NOT h.again THEN h.deadline END, h.outcome, h.error,
            CASE WHEN NOT h.again THEN h.result END, CASE WHEN NOT h.again THEN h.message END,
            CASE WHEN NOT h.again THEN h.progress END, h.checkpoint, h.lease_until, h.batch_id,
            CASE WHEN h.again THEN coalesce(h.round, 0) + 1 ELSE h.round END,
            CASE WHEN h.again THEN NULL WHEN h.state = 'rollback_failed' THEN h.cause WHEN h.state = 'cancelled' THEN h.state
                 WHEN h.outcome IN ('deferred', 'superseded', 'undelivered', 'drained') THEN 'failed'
                 ELSE coalesce(h.outcome, h.state) END,
            h.rollback_payload, h.lock, h.sequence, h.after, h.after_if, {waits_again}, h.tenant,
            CASE WHEN NOT h.again OR h.failed_task <> h.id THEN h.failed_task END
        FROM hit AS h
        ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING id
    ), waiting AS (
        INSERT INTO {schema}.dependent AS d (task_id, total)
        SELECT h.id, cardinality(h.after) FROM hit AS h
        WHERE {waits_again} = 'after' AND h.id = ANY (ARRAY(SELECT b.id FROM back AS b))
        ON CONFLICT (task_id) DO UPDATE SET stage = 'look', place = 0
    ), deleted AS (
        DELETE FROM {schema}.task_archive AS r WHERE r.id = ANY (ARRAY(SELECT b.id FROM back AS b))
    ), remembered AS (
        INSERT INTO {schema}.attempt (
            task_id, fence, ran_fence, session, policy, phase, attempt, outcome, error, output, result, state, started_at, ended_at)
        SELECT h.id, h.fence - 1, h.fence - 1, h.session, h.policy, 'run', 1, 'succeeded', NULL, h.output, h.result, 'succeeded',
            h.started_at, h.finished_at
        FROM hit AS h
        WHERE h.id = ANY (ARRAY(SELECT b.id FROM back AS b)) AND {first_success of=h.}
        ON CONFLICT (task_id, fence) DO NOTHING
    ), counted AS (
        INSERT INTO {schema}.batch_delta (batch_id, succeeded, failed, cancelled, rolling_back, rolled_back,
            rollback_failed)
        SELECT h.batch_id, -count(*) FILTER (WHERE h.state = 'succeeded'), -count(*) FILTER (WHERE h.state = 'failed'),
            -count(*) FILTER (WHERE h.state = 'cancelled'), count(*) FILTER (WHERE NOT h.again),
            -count(*) FILTER (WHERE h.state = 'rolled_back'), -count(*) FILTER (WHERE h.state = 'rollback_failed')
        FROM hit AS h
        WHERE h.batch_id IS NOT NULL AND h.id = ANY (ARRAY(SELECT b.id FROM back AS b))
        GROUP BY h.batch_id
    ), resolved AS ( -- a failure that its sequence waits for
        DELETE FROM {schema}.sequence_failure AS f USING hit AS h
        WHERE h.sequence IS NOT NULL AND f.type = h.type AND f.name = h.sequence AND f.task_id = h.id
          AND h.id = ANY (ARRAY(SELECT b.id FROM back AS b))
    ), opened AS ( -- also where it is open: a step that notes that it has finished locks the archived row first
        UPDATE {schema}.chunk_range AS c SET state = 'reopened' WHERE c.task_id = ANY (ARRAY(SELECT b.id FROM back AS b))
    )
    SELECT array_agg(b.id) INTO revived FROM back AS b;
    -- What was cancelled on account of one is to be revived, too. An isolation level at which this statement sees no more than
    -- the first of the transaction may miss some: agents look.
    IF verb = 'retry' THEN
        INSERT INTO {schema}.revived_note (id, batch_id)
        SELECT t.id, t.batch_id FROM {schema}.task AS t WHERE t.id = ANY (revived)
          AND (current_setting('transaction_isolation') <> 'read committed'
              OR (SELECT a.id FROM {schema}.task_archive AS a WHERE a.cancelled_for = t.id LIMIT 1) IS NOT NULL)
        ORDER BY t.id;
    END IF;
    RETURN QUERY SELECT unnest(revived);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.revive(bigint[], timestamptz[], text, bigint[]) FROM PUBLIC;

-- Revives one row, which the caller has locked together with its batch. A batch that had ended is reopened.
CREATE OR REPLACE FUNCTION {schema}.revive_one(a {schema}.task_archive, verb text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    live bigint;
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.id INTO live FROM {schema}.task AS r WHERE r.type = a.type AND r.key = a.key;
        IF live IS NOT NULL THEN
            PERFORM {schema}.raise_conflict(format('task %s is live with the key %s: wait for it or cancel it', live,
                to_json(a.key)));
        END IF;
        PERFORM FROM {schema}.revive(ARRAY[a.id], ARRAY[clock_timestamp()], verb);
        EXIT WHEN FOUND; -- else another row had the key for a moment, or this one is being removed
        PERFORM {schema}.limit_tries(a.id, try);
    END LOOP;
    PERFORM {schema}.reopen_batch(a.batch_id);
    PERFORM pg_notify({channel_literal}, '');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.revive_one({schema}.task_archive, text) FROM PUBLIC;
