-- What operators do to one task, and what of it applications may. The order in which rows are locked is: the batch, its
-- operation, the task.

-- Who requests an operation, for the audit: by default the role that asks, and '' is nobody.
CREATE FUNCTION {schema}.who_asks(by text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF octet_length(by) > 512 THEN
        RAISE EXCEPTION 'by must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN nullif(coalesce(by, session_user), '');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.who_asks(text) FROM PUBLIC;

-- A request that is refused: nothing has changed.
CREATE FUNCTION {schema}.refuse(reason text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = reason;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.refuse(text) FROM PUBLIC;

-- Whether a row can be undone: the policy that its last attempt started with says so, or any other of its type does, which
-- may have got its rollback later.
CREATE FUNCTION {schema}.can_undo(of_type text, with_policy bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RETURN EXISTS (SELECT FROM {schema}.policy AS p
                   WHERE (p.hash = with_policy OR p.type = of_type) AND p.body ? 'rollback');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.can_undo(text, bigint) FROM PUBLIC;

-- A new round of a batch that has ended. Whoever calls this has its row locked.
CREATE FUNCTION {schema}.reopen(batch bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
BEGIN
    UPDATE {schema}.batch AS b SET
        ended_at = NULL, round = b.round + 1, requested = NULL, requested_by = NULL, by_failure = false, stopping = false, look = true,
        failures_seen = b.failures + coalesce((
            SELECT sum(d.failures) FROM {schema}.batch_delta AS d WHERE d.batch_id = b.id), 0)
    WHERE b.id = batch AND b.ended_at IS NOT NULL;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.reopen(bigint) FROM PUBLIC;

-- Moves a live row, as the caller has changed it, to the archive. Agents make the archive's partitions ahead; where none
-- has been there for days, today's is made here.
CREATE OR REPLACE FUNCTION {schema}.bury(t {schema}.task, began timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
BEGIN
    PERFORM {schema}.make_place(ended);
    DELETE FROM {schema}.task AS r WHERE r.id = t.id;
    INSERT INTO {schema}.task_archive (
        id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, attempt, deferrals, ever_started, fence, session, policy, lease_until, claimed_at, deadline, outcome, error,
        result, started_at, finished_at, cancel_asked, cancel_by, message, progress, checkpoint, batch_id, round, cause,
        rollback_payload)
    VALUES (t.id, t.type, t.state, t.priority, t.region, t.key, t.run_at, t.payload, t.labels, t.traceparent,
        t.created_by, t.max_attempts, t.created_at, t.attempt, t.deferrals, t.ever_started, t.fence, t.session, t.policy,
        t.lease_until, t.claimed_at, t.deadline, t.outcome, t.error, t.result, began, ended, t.cancel_asked, t.cancel_by,
        t.message, t.progress, t.checkpoint, t.batch_id, t.round, t.cause, t.rollback_payload);
END
$leasehold$;

-- Ends the attempt that was given the fence as succeeded. applied, ended (it has ended so before), lost, or busy where
-- somebody's transaction keeps the row and wait is false. When the attempt itself began is not known here: it was
-- claimed then.
CREATE OR REPLACE FUNCTION {schema}.take_complete(of bigint, with_fence bigint, wait boolean, new_result jsonb)
    RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    t   {schema}.task;
    was text;
BEGIN
    IF wait THEN
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE;
    ELSE
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE SKIP LOCKED;
    END IF;
    IF t.id IS NULL THEN
        -- In this order: a row goes from the one table to the other. It may be back by now, but its history tells.
        IF EXISTS (SELECT FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0) THEN
            RETURN 'busy';
        ELSIF EXISTS (SELECT FROM {schema}.task_archive AS a
                      WHERE a.id = of AND a.fence = with_fence + 1 AND a.outcome = 'succeeded')
            OR EXISTS (SELECT FROM {schema}.attempt AS h
                       WHERE h.task_id = of AND h.fence = with_fence AND h.outcome = 'succeeded') THEN
            RETURN 'ended';
        END IF;
        RETURN 'lost';
    END IF;
    was := t.state;
    t.state := CASE was WHEN 'running' THEN 'succeeded' ELSE 'rolled_back' END;
    IF was = 'rollback_running' OR t.attempt <> 1 THEN -- of a first attempt the archive tells all there is
        INSERT INTO {schema}.attempt (
            task_id, fence, ran_fence, session, phase, attempt, outcome, result, state, started_at, ended_at)
        VALUES (of, with_fence, with_fence, t.session, CASE was WHEN 'running' THEN 'run' ELSE 'rollback' END,
            t.attempt, 'succeeded', new_result, t.state, t.claimed_at, clock_timestamp());
    END IF;
    IF was = 'running' THEN -- what a rollback says stands in the history
        t.result := CASE WHEN t.attempt = 1 THEN new_result ELSE coalesce(new_result, t.result) END;
    END IF;
    t.fence := t.fence + 1;
    t.outcome := 'succeeded';
    t.error := NULL;
    t.deferrals := 0;
    t.ever_started := true;
    t.lease_until := NULL;
    PERFORM {schema}.bury(t, t.claimed_at), {schema}.count_step(t.batch_id, was, t.state, false, true);
    RETURN 'applied';
END
$leasehold$;

-- Cancels a row that waits, which the caller has locked: it is cancelled, or, where it was ever started and can be
-- undone, waits for that, until nothing of it is at work any more.
CREATE FUNCTION {schema}.call_off(t {schema}.task, who text, can boolean) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    was text := t.state;
BEGIN
    t.outcome := 'cancelled';
    t.error := CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END
        || coalesce(', by ' || who, '');
    IF t.ever_started AND can THEN
        UPDATE {schema}.task AS r SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = greatest(clock_timestamp(), r.lease_until),
            fence = r.fence + 1, outcome = t.outcome, error = t.error, cause = 'cancelled'
        WHERE r.id = t.id;
        PERFORM {schema}.count_step(t.batch_id, was, 'rollback_pending', false, false);
        PERFORM pg_notify({channel_literal}, '');
        RETURN 'rollback_pending';
    END IF;
    t.state := 'cancelled';
    t.fence := t.fence + 1;
    t.cancel_asked := clock_timestamp();
    t.cancel_by := who;
    PERFORM {schema}.bury(t, NULL), {schema}.count_step(t.batch_id, was, 'cancelled', false, false);
    RETURN 'cancelled';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.call_off({schema}.task, text, boolean) FROM PUBLIC;

-- Calls a task off and tells what became of that: its state, or 'cancelling' where it runs and is being told to stop. A
-- repeat changes nothing. by is for the audit; by default it is the role that asks, and '' is nobody.
CREATE OR REPLACE FUNCTION {schema}.cancel(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    t      {schema}.task;
    answer text;
    who    text := {schema}.who_asks(by);
BEGIN
    LOOP
        -- An application that keeps the row (FOR KEY SHARE) does not stand in the way of this lock.
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = cancel.id FOR NO KEY UPDATE;
        EXIT WHEN t.id IS NOT NULL;
        SELECT r.state INTO answer FROM {schema}.tasks AS r WHERE r.id = cancel.id;
        IF answer IS NULL THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        ELSIF answer IN ('succeeded', 'failed', 'cancelled', 'rolled_back', 'rollback_failed') THEN
            RETURN answer;
        END IF; -- it has come back from the archive just now
    END LOOP;
    IF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    ELSIF t.state = 'running' THEN
        answer := 'cancelling';
        IF t.cancel_asked IS NOT NULL THEN
            RETURN answer;
        END IF;
        UPDATE {schema}.task AS r SET cancel_asked = clock_timestamp(), cancel_by = who WHERE r.id = cancel.id;
        PERFORM pg_notify({channel_literal}, 'asked');
    ELSE
        answer := {schema}.call_off(t, who, EXISTS (
            SELECT FROM {schema}.policy AS p WHERE p.hash = t.policy AND p.body ? 'rollback'));
    END IF;
    INSERT INTO {schema}.audit (who, verb, task_id, answer) VALUES (who, 'cancel', cancel.id, answer);
    RETURN answer;
END
$leasehold$;

-- Brings finished rows back to life, to run ('retry') or to be undone ('rollback'), each due at the time in its place, and
-- tells which; not before nothing of them is at work any more. Locked rows are passed over, and rows whose key is another's by now; ids are sorted. A
-- run that succeeded at its first try gets its row of the history now; all others have theirs since their settlement.
CREATE FUNCTION {schema}.bring_back(ids bigint[], dues timestamptz[], verb text) RETURNS SETOF bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
BEGIN
    RETURN QUERY
    WITH hit AS MATERIALIZED (
        SELECT a.*, g.due, verb = 'retry' AS again FROM unnest(ids, dues) AS g (id, due)
        CROSS JOIN LATERAL (
            SELECT * FROM {schema}.task_archive AS r WHERE r.id = g.id FOR UPDATE SKIP LOCKED
        ) AS a
    ), back AS (
        INSERT INTO {schema}.task (
            id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, ever_started, fence, session, policy, deadline, outcome, error, result, message, progress, checkpoint,
            lease_until, batch_id, round, cause, rollback_payload)
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
            h.rollback_payload
        FROM hit AS h
        ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING id
    ), gone AS (
        DELETE FROM {schema}.task_archive AS r WHERE r.id = ANY (ARRAY(SELECT b.id FROM back AS b))
    ), remembered AS (
        INSERT INTO {schema}.attempt (
            task_id, fence, ran_fence, session, phase, attempt, outcome, error, output, result, state, started_at, ended_at)
        SELECT h.id, h.fence - 1, h.fence - 1, h.session, 'run', 1, 'succeeded', NULL, h.output, h.result, 'succeeded',
            h.started_at, h.finished_at
        FROM hit AS h
        WHERE h.id = ANY (ARRAY(SELECT b.id FROM back AS b)) AND h.state = 'succeeded' AND h.attempt = 1
        ON CONFLICT (task_id, fence) DO NOTHING
    ), counted AS (
        INSERT INTO {schema}.batch_delta (batch_id, succeeded, failed, cancelled, undoing, rolled_back, rollback_failed)
        SELECT h.batch_id, -count(*) FILTER (WHERE h.state = 'succeeded'), -count(*) FILTER (WHERE h.state = 'failed'),
            -count(*) FILTER (WHERE h.state = 'cancelled'), count(*) FILTER (WHERE NOT h.again),
            -count(*) FILTER (WHERE h.state = 'rolled_back'), -count(*) FILTER (WHERE h.state = 'rollback_failed')
        FROM hit AS h
        WHERE h.batch_id IS NOT NULL AND h.id = ANY (ARRAY(SELECT b.id FROM back AS b))
        GROUP BY h.batch_id
    )
    SELECT b.id FROM back AS b;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.bring_back(bigint[], timestamptz[], text) FROM PUBLIC;

-- Ends a look for an archived row that was seen and then not found, from the tenth try on. A row that another moves meanwhile is
-- found at the second look. One that is past its retention may never be: while the partition that it is in is being detached,
-- a statement that was planned before sees it, and one that is planned later does not, for as long as the transaction lasts;
-- and the detaching waits for that transaction.
CREATE FUNCTION {schema}.going(id bigint, try integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF try >= 10 THEN
        RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.going(bigint, integer) FROM PUBLIC;

-- bring_back for one row, that the caller has locked, with its batch: which is opened again if it had ended.
CREATE FUNCTION {schema}.bring_back_one(a {schema}.task_archive, verb text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    live bigint;
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.id INTO live FROM {schema}.task AS r WHERE r.type = a.type AND r.key = a.key;
        IF live IS NOT NULL THEN
            PERFORM {schema}.refuse(format('task %s is live with the key %s: wait for it or cancel it', live,
                to_json(a.key)));
        END IF;
        PERFORM FROM {schema}.bring_back(ARRAY[a.id], ARRAY[clock_timestamp()], verb);
        EXIT WHEN FOUND; -- else the key was another's for a moment, or the row goes
        PERFORM {schema}.going(a.id, try);
    END LOOP;
    PERFORM {schema}.reopen(a.batch_id);
    PERFORM pg_notify({channel_literal}, '');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.bring_back_one({schema}.task_archive, text) FROM PUBLIC;

-- Revives a task that has failed, was cancelled or rolled back, and tells its state.
CREATE FUNCTION {schema}.retry(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    seen record;
    b    {schema}.batch;
    a    {schema}.task_archive;
    who  text := {schema}.who_asks(by);
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.state, r.batch_id INTO seen FROM {schema}.tasks AS r WHERE r.id = retry.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        ELSIF seen.state NOT IN ('failed', 'cancelled', 'rolled_back') THEN
            RETURN seen.state;
        END IF;
        SELECT r.* INTO b FROM {schema}.batch AS r WHERE r.id = seen.batch_id FOR NO KEY UPDATE;
        SELECT r.* INTO a FROM {schema}.task_archive AS r WHERE r.id = retry.id FOR UPDATE;
        EXIT WHEN a.id IS NOT NULL; -- else another has brought it back just now, or it goes
        PERFORM {schema}.going(retry.id, try);
    END LOOP;
    IF EXISTS (SELECT FROM {schema}.operation AS o WHERE o.task_id = retry.id AND o.ended_at IS NULL) THEN
        PERFORM {schema}.refuse(format('task %s is to be rolled back: wait for that', id));
    ELSIF b.requested IS NOT NULL AND b.ended_at IS NULL THEN
        PERFORM {schema}.refuse(format('task %s belongs to batch %s, of which a %s is under way: wait until the batch has '
            'ended', id, b.id, b.requested));
    END IF;
    PERFORM {schema}.bring_back_one(a, 'retry');
    INSERT INTO {schema}.audit (who, verb, task_id, answer) VALUES (who, 'retry', retry.id, 'pending');
    RETURN 'pending';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.retry(bigint, text) FROM PUBLIC;

-- rollback for a row that is live, and locked by the caller. One that runs is told to stop, and the request is kept.
CREATE FUNCTION {schema}.rollback_live(t {schema}.task, who text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    answer text;
BEGIN
    IF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    ELSIF NOT {schema}.can_undo(t.type, t.policy) THEN
        PERFORM {schema}.refuse(format('the type %s has no rollback', to_json(t.type)));
    ELSIF t.state = 'running' THEN
        answer := 'cancelling';
        IF t.cancel_asked IS NULL THEN
            UPDATE {schema}.task AS r SET cancel_asked = clock_timestamp(), cancel_by = who WHERE r.id = t.id;
            PERFORM pg_notify({channel_literal}, 'asked');
        END IF;
        IF EXISTS (SELECT FROM {schema}.operation AS o WHERE o.task_id = t.id AND o.ended_at IS NULL) THEN
            RETURN answer;
        END IF;
        INSERT INTO {schema}.operation (verb, batch_id, task_id, asked_at, who)
        VALUES ('rollback', t.batch_id, t.id, clock_timestamp(), who);
    ELSE
        answer := {schema}.call_off(t, who, true);
    END IF;
    INSERT INTO {schema}.audit (who, verb, task_id, answer) VALUES (who, 'rollback', t.id, answer);
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.rollback_live({schema}.task, text) FROM PUBLIC;

-- Undoes what a task has done, if its type can, and tells what became of it: its state, or 'cancelling' where it runs and
-- is being told to stop.
CREATE FUNCTION {schema}.rollback(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    seen record;
    t    {schema}.task;
    a    {schema}.task_archive;
    who  text := {schema}.who_asks(by);
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.state, r.batch_id INTO seen FROM {schema}.tasks AS r WHERE r.id = rollback.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        END IF;
        PERFORM FROM {schema}.batch AS b WHERE b.id = seen.batch_id FOR NO KEY UPDATE;
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = rollback.id FOR NO KEY UPDATE;
        IF t.id IS NOT NULL THEN
            RETURN {schema}.rollback_live(t, who);
        END IF;
        SELECT r.* INTO a FROM {schema}.task_archive AS r WHERE r.id = rollback.id FOR UPDATE;
        EXIT WHEN a.id IS NOT NULL; -- else it has just come from where it was looked for later, or sooner, or it goes
        PERFORM {schema}.going(rollback.id, try);
    END LOOP;
    IF a.state = 'rolled_back' THEN
        RETURN a.state;
    ELSIF NOT {schema}.can_undo(a.type, a.policy) THEN
        PERFORM {schema}.refuse(format('the type %s has no rollback', to_json(a.type)));
    ELSIF NOT a.ever_started THEN
        RETURN a.state;
    END IF;
    PERFORM {schema}.bring_back_one(a, 'rollback');
    INSERT INTO {schema}.audit (who, verb, task_id, answer) VALUES (who, 'rollback', rollback.id, 'rollback_pending');
    RETURN 'rollback_pending';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.rollback(bigint, text) FROM PUBLIC;
