-- What operators do to batches, and how agents carry it on: in steps of some thousand rows. The order in which rows are
-- locked is: the batch, its operation, the tasks; where it is another, nothing is waited for.

-- Says that no more rows will come. Tells 'sealed', or the state in which the batch has ended.
CREATE FUNCTION {schema}.seal_batch(id bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    b {schema}.batch := {schema}.lock_batch(id);
BEGIN
    IF b.ended_at IS NOT NULL THEN
        RETURN (SELECT v.state FROM {schema}.batches AS v WHERE v.id = seal_batch.id);
    ELSIF NOT b.sealed THEN
        UPDATE {schema}.batch AS r SET sealed = true, look = true WHERE r.id = seal_batch.id;
        PERFORM pg_notify({channel_literal}, 'asked');
    END IF;
    RETURN 'sealed';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.seal_batch(bigint) FROM PUBLIC;

-- The batch, locked.
CREATE FUNCTION {schema}.lock_batch(batch bigint) RETURNS {schema}.batch
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    b {schema}.batch;
BEGIN
    SELECT r.* INTO b FROM {schema}.batch AS r WHERE r.id = batch FOR NO KEY UPDATE;
    IF b.id IS NULL THEN
        RAISE EXCEPTION 'there is no batch %', batch USING ERRCODE = 'no_data_found';
    END IF;
    RETURN b;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.lock_batch(bigint) FROM PUBLIC;

-- Begins an operation on a batch that the caller has locked, in the place of any other. A batch that is cancelled or rolled
-- back takes no rows any more, and nothing of it starts.
CREATE FUNCTION {schema}.operate(batch bigint, with_verb text, by text, with_force boolean, with_answer text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
BEGIN
    UPDATE {schema}.operation AS o SET ended_at = clock_timestamp(), superseded = true
    WHERE o.batch_id = batch AND o.task_id IS NULL AND o.ended_at IS NULL;
    PERFORM {schema}.reopen(batch);
    IF with_verb <> 'retry' THEN
        UPDATE {schema}.batch AS b SET
            stopping = true, sealed = true, requested = with_verb, requested_by = by, by_failure = by IS NOT DISTINCT FROM 'on_failure',
            failures_seen = b.failures, look = true
        WHERE b.id = batch;
    END IF;
    INSERT INTO {schema}.operation (verb, batch_id, asked_at, force, who)
    VALUES (with_verb, batch, clock_timestamp(), with_force, by);
    INSERT INTO {schema}.audit (who, verb, batch_id, answer) VALUES (by, with_verb, batch, with_answer);
    PERFORM pg_notify({channel_literal}, 'asked');
    RETURN with_answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.operate(bigint, text, text, boolean, text) FROM PUBLIC;

-- Cancels what waits of a batch and stops what runs. Once this has committed, nothing of it is claimed.
CREATE FUNCTION {schema}.cancel_batch(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    who text := {schema}.who_asks(by);
    b   {schema}.batch := {schema}.lock_batch(id);
BEGIN
    IF b.ended_at IS NOT NULL THEN
        RETURN (SELECT v.state FROM {schema}.batches AS v WHERE v.id = cancel_batch.id);
    ELSIF b.requested IS NOT NULL THEN
        RETURN CASE b.requested WHEN 'rollback' THEN 'rolling_back' ELSE 'cancelling' END;
    END IF;
    RETURN {schema}.operate(id, 'cancel', who, false, 'cancelling');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_batch(bigint, text) FROM PUBLIC;

-- Retries what failed of a batch.
CREATE FUNCTION {schema}.retry_batch(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    who text := {schema}.who_asks(by);
    b   {schema}.batch := {schema}.lock_batch(id);
BEGIN
    IF b.requested IS NOT NULL AND b.ended_at IS NULL THEN
        PERFORM {schema}.refuse(format('a %s of batch %s is under way: wait until the batch has ended', b.requested, id));
    ELSIF EXISTS (SELECT FROM {schema}.operation AS o
                  WHERE o.batch_id = retry_batch.id AND o.task_id IS NULL AND o.ended_at IS NULL) THEN
        RETURN 'retrying';
    ELSIF NOT EXISTS (
        SELECT FROM {schema}.task_archive AS a WHERE a.batch_id = retry_batch.id AND (a.state = 'failed'
            OR a.state = 'rolled_back' AND coalesce(a.cause, '') NOT IN ('succeeded', 'cancelled'))
    ) THEN
        RETURN (SELECT v.state FROM {schema}.batches AS v WHERE v.id = retry_batch.id);
    END IF;
    RETURN {schema}.operate(id, 'retry', who, false, 'retrying');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.retry_batch(bigint, text) FROM PUBLIC;

-- Cancels what waits of a batch, stops what runs and undoes what was done. Where rows are past their retention it is
-- refused, unless force says that what is left is to be undone.
CREATE FUNCTION {schema}.rollback_batch(id bigint, by text DEFAULT NULL, force boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    who  text := {schema}.who_asks(by);
    b    {schema}.batch := {schema}.lock_batch(id);
    v    record;
    here bigint;
BEGIN
    IF b.requested = 'rollback' AND b.ended_at IS NULL THEN
        RETURN 'rolling_back';
    END IF;
    SELECT r.state, r.total, r.live INTO v FROM {schema}.batches AS r WHERE r.id = rollback_batch.id;
    IF b.thinned AND force IS NOT TRUE THEN
        SELECT v.live + count(*) INTO here FROM {schema}.task_archive AS a WHERE a.batch_id = rollback_batch.id;
        PERFORM {schema}.refuse(CASE WHEN here < v.total
            THEN format('%s of the %s tasks of batch %s are past their retention and cannot be rolled back: use force to '
                'roll back the %s that are left', v.total - here, v.total, id, here)
            ELSE format('some of the %s tasks of batch %s are past their retention and are being removed: use force to roll '
                'back what is left of the %s', v.total, id, here) END);
    ELSIF b.ended_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM {schema}.task_archive AS a, {schema}.undoable() AS u
        WHERE a.batch_id = rollback_batch.id
          AND CASE WHEN a.ever_started AND a.state IN ('succeeded', 'failed', 'cancelled') THEN coalesce(a.started_at, a.finished_at) END
              IS NOT NULL
          AND (a.policy = ANY (u.hashes) OR a.type = ANY (u.types))
    ) THEN
        RETURN v.state;
    END IF;
    RETURN {schema}.operate(id, 'rollback', who, coalesce(force, false), 'rolling_back');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.rollback_batch(bigint, text, boolean) FROM PUBLIC;

-- What can be undone: by policy, or by type.
CREATE FUNCTION {schema}.undoable(OUT hashes bigint[], OUT types text[])
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    SELECT coalesce(array_agg(p.hash), '{}'), coalesce(array_agg(DISTINCT p.type), '{}') INTO hashes, types
    FROM {schema}.policy AS p WHERE p.body ? 'rollback';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.undoable() FROM PUBLIC;

-- Asks what runs of a batch to stop, and cancels what waits: at most so many rows, locked ones another
-- time. It is over when nothing of the batch runs or waits to run, and no open transaction inserts such a row.
CREATE FUNCTION {schema}.step_off(
    INOUT o {schema}.operation, most bigint, OUT changed bigint, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    n        bigint;
    from_top boolean;
BEGIN
    WITH hit AS MATERIALIZED (
        SELECT t.id FROM {schema}.task AS t
        WHERE t.state IN ('running', 'rollback_running') AND t.state = 'running' AND t.batch_id + 0 = o.batch_id
          AND t.cancel_asked IS NULL
        LIMIT most FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE {schema}.task AS t SET
        cancel_asked = clock_timestamp(),
        cancel_by = format('batch %s', o.batch_id) || coalesce(format(' (%s by %s)', o.verb, o.who), '')
    WHERE t.id = ANY (ARRAY(SELECT hit.id FROM hit));
    GET DIAGNOSTICS changed = ROW_COUNT;
    IF changed > 0 THEN
        PERFORM pg_notify({channel_literal}, 'asked');
    END IF;
    -- The cursor spares each step the dead entries of those before. What turns out to be behind it takes another pass.
    WHILE changed < most AND (SELECT v.waiting > 0 FROM {schema}.batches AS v WHERE v.id = o.batch_id) LOOP
        from_top := o.after_id IS NULL;
        SELECT s.called, s.last INTO n, o.after_id FROM {schema}.call_off_some(o, most - changed) AS s;
        changed := changed + n;
        EXIT WHEN from_top OR n > 0;
    END LOOP;
    over := false;
    IF (SELECT v.live = v.undoing FROM {schema}.batches AS v WHERE v.id = o.batch_id) THEN
        -- Whoever has inserted a row and not committed keeps the batch (FOR KEY SHARE). The next look sees what came before.
        PERFORM FROM {schema}.batch AS b WHERE b.id = o.batch_id FOR UPDATE SKIP LOCKED;
        over := FOUND AND (SELECT v.live = v.undoing FROM {schema}.batches AS v WHERE v.id = o.batch_id);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_off({schema}.operation, bigint) FROM PUBLIC;

-- Cancels at most so many rows of a batch that wait to run, from the cursor on. last is the new cursor; NULL: there are no
-- more behind it. A cancel goes by the policy that a row's last attempt started with, as everywhere; who wants a rollback,
-- wants it of types that can be rolled back by now.
CREATE FUNCTION {schema}.call_off_some(o {schema}.operation, most bigint, OUT called bigint, OUT last bigint)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
    can   record;
    undo  bigint;
BEGIN
    SELECT * INTO can FROM {schema}.undoable();
    PERFORM {schema}.make_place(ended);
    WITH hit AS MATERIALIZED (
        SELECT t.*, t.ever_started AND (t.policy = ANY (can.hashes) OR o.verb = 'rollback' AND t.type = ANY (can.types)) IS TRUE
                AS undo,
            CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END || ', by ' ||
                format('batch %s', o.batch_id) || coalesce(format(' (%s by %s)', o.verb, o.who), '') AS why
        FROM {schema}.task AS t
        WHERE t.batch_id IS NOT NULL AND (t.batch_id, t.id) > (o.batch_id, coalesce(o.after_id, 0))
          AND (t.batch_id, t.id) < (o.batch_id + 1, 0) AND t.state IN ('pending', 'retry_pending')
        ORDER BY t.batch_id, t.id LIMIT most FOR UPDATE SKIP LOCKED
    ), gone AS (
        DELETE FROM {schema}.task AS t WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE NOT h.undo))
    ), buried AS (
        INSERT INTO {schema}.task_archive (
            id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, attempt, deferrals, ever_started, fence, session, policy, lease_until, deadline, outcome, error, result,
            finished_at, cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round, cause, rollback_payload)
        SELECT id, type, 'cancelled', priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, attempt, deferrals, ever_started, fence + 1, session, policy, lease_until, deadline, 'cancelled', why,
            result, ended, ended, format('batch %s', o.batch_id) || coalesce(format(' (%s by %s)', o.verb, o.who), ''),
            message, progress, checkpoint, batch_id, round, cause, rollback_payload
        FROM hit WHERE NOT hit.undo
    ), undone AS (
        UPDATE {schema}.task AS t SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = greatest(ended, t.lease_until),
            fence = t.fence + 1, outcome = 'cancelled', cause = 'cancelled',
            error = 'cancelled while it waited, by ' || format('batch %s', o.batch_id)
                || coalesce(format(' (%s by %s)', o.verb, o.who), '')
        WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE h.undo))
    ), counted AS (
        INSERT INTO {schema}.batch_delta (batch_id, cancelled, undoing)
        SELECT o.batch_id, count(*) FILTER (WHERE NOT h.undo), count(*) FILTER (WHERE h.undo) FROM hit AS h
        HAVING count(*) > 0
    )
    SELECT count(*), count(*) FILTER (WHERE h.undo), CASE WHEN count(*) >= most THEN max(h.id) END INTO called, undo, last
    FROM hit AS h;
    IF undo > 0 THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.call_off_some({schema}.operation, bigint) FROM PUBLIC;
