-- What a task says of itself, who wants it stopped, and how it is heard by other ways than its agent. All of it is NULL
-- in rows that use none of it, and takes no room there.
ALTER TABLE {schema}.task
    ADD COLUMN cancel_asked timestamptz, -- never on a row that waits
    ADD COLUMN ping_due     timestamptz, -- when the next ping is due after one that came by another way than the holder
    ADD COLUMN detached     boolean,     -- the hold depends on lease_until alone; NULL: also on its session's presence
    ADD COLUMN cancel_by    text,
    ADD COLUMN message      text,
    ADD COLUMN progress     jsonb,
    ADD COLUMN checkpoint   jsonb,
    ADD COLUMN marks        jsonb; -- of a type that requires progress: what the attempt with the fence in it has reported
ALTER TABLE {schema}.task_archive
    ADD COLUMN cancel_asked timestamptz,
    ADD COLUMN cancel_by    text,
    ADD COLUMN message      text,
    ADD COLUMN progress     jsonb,
    ADD COLUMN checkpoint   jsonb;

CREATE OR REPLACE VIEW {schema}.tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL::text AS output, NULL::timestamptz AS started_at,
           NULL::timestamptz AS finished_at, progress, message, checkpoint, cancel_asked, cancel_by,
           coalesce(detached, false) AS detached
    FROM {schema}.task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at, progress, message, checkpoint, cancel_asked,
           cancel_by, false
    FROM {schema}.task_archive;

-- The store's own key for ping URLs. It is granted to nobody.
CREATE TABLE {schema}.secret (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    key      bytea NOT NULL
);
INSERT INTO {schema}.secret (key)
    SELECT sha256(convert_to(string_agg(gen_random_uuid()::text, ''), 'UTF8')) FROM generate_series(1, 4);

-- The functions below are called by applications, on connections of which nothing is known: a plan that was made when
-- the table was empty must not be one that reads all of it.

-- What an attempt is told that holds its row no longer.
CREATE FUNCTION {schema}.gone(of bigint, with_fence bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RAISE EXCEPTION 'task % is not held with fence % any more: stop, and commit nothing', of, with_fence
        USING ERRCODE = 'LH410';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.gone(bigint, bigint) FROM PUBLIC;

-- These two have no search_path of their own, so that they become part of the statements that call them: all that they
-- name stands with its schema.

-- About how long a document is without the spaces that jsonb writes.
CREATE FUNCTION {schema}.length_of(document jsonb) RETURNS integer
    LANGUAGE sql IMMUTABLE AS
$leasehold$
    SELECT pg_catalog.octet_length(pg_catalog.replace(
        pg_catalog.replace(document::pg_catalog.text, '": ', '":'), ', ', ','))
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.length_of(jsonb) FROM PUBLIC;

-- A length of a policy, which are nanoseconds; NULL where it has none.
CREATE FUNCTION {schema}.length_in(policy jsonb, name text) RETURNS interval
    LANGUAGE sql IMMUTABLE AS
$leasehold$
    SELECT CASE WHEN (policy OPERATOR(pg_catalog.->>) name)::bigint OPERATOR(pg_catalog.<>) 0 THEN
        ((policy OPERATOR(pg_catalog.->>) name)::bigint OPERATOR(pg_catalog./) 1000)
            OPERATOR(pg_catalog.*) interval '1 microsecond' END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.length_in(jsonb, text) FROM PUBLIC;

-- Names a JSON value of a kind in 16 hexadecimal digits: the same for values that are equal, in whatever order their members
-- stand and however their numbers are written. A value is the set of its nodes, each with an id that says where it stands;
-- the digest is the hash of the hashes of all of them, sorted. Go's task.digest gives the same, and a check compares them.
CREATE FUNCTION {schema}.digest_of(kind text, document jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET jit = off AS
$leasehold$
BEGIN
    RETURN (
        WITH RECURSIVE node (id, value) AS (
            SELECT sha256(convert_to(kind, 'UTF8')), document
            UNION ALL
            SELECT sha256(n.id || convert_to(below.name, 'UTF8')), below.value
            FROM node AS n CROSS JOIN LATERAL (
                SELECT 'k' || m.key AS name, m.value
                FROM jsonb_each(CASE jsonb_typeof(n.value) WHEN 'object' THEN n.value ELSE '{}' END) AS m
                UNION ALL
                SELECT 'i' || (e.n - 1), e.value
                FROM jsonb_array_elements(CASE jsonb_typeof(n.value) WHEN 'array' THEN n.value ELSE '[]' END)
                    WITH ORDINALITY AS e (value, n)
            ) AS below
        ), hashed AS (
            SELECT sha256(n.id || convert_to(CASE jsonb_typeof(n.value)
                WHEN 'object' THEN 'o'
                WHEN 'array' THEN 'a'
                WHEN 'string' THEN 's' || (n.value #>> '{}')
                WHEN 'number' THEN '#' || trim_scale((n.value #>> '{}')::numeric)
                WHEN 'boolean' THEN left(n.value::text, 1)
                ELSE 'n' END, 'UTF8')) AS hash
            FROM node AS n
        )
        SELECT encode(substr(sha256(string_agg(h.hash, ''::bytea ORDER BY h.hash)), 1, 8), 'hex') FROM hashed AS h
    );
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.digest_of(text, jsonb) FROM PUBLIC;

-- Adds to the marks of the attempt with that fence what another way has heard of it: the highest numbers, and the last 8
-- digests. Marks with another fence are another attempt's. Go's task.Marks.Merge states the same rule.
CREATE FUNCTION {schema}.merge_marks(marks jsonb, with_fence bigint, more jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    name text;
    seen jsonb;
BEGIN
    IF (marks ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        marks := jsonb_build_object('fence', with_fence);
    END IF;
    IF (more ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        RETURN marks;
    END IF;
    FOREACH name IN ARRAY ARRAY['number', 'done'] LOOP
        IF (more ->> name)::numeric > coalesce((marks ->> name)::numeric, '-Infinity') THEN
            marks := marks || jsonb_build_object(name, more -> name);
        END IF;
    END LOOP;
    seen := coalesce(marks -> 'seen', '[]');
    FOR name IN SELECT e.digest FROM jsonb_array_elements_text(more -> 'seen') AS e (digest) LOOP
        IF NOT seen ? name THEN
            seen := seen || to_jsonb(name);
            IF jsonb_array_length(seen) > 8 THEN
                seen := seen - 0;
            END IF;
        END IF;
    END LOOP;
    RETURN CASE WHEN seen = '[]' THEN marks ELSE marks || jsonb_build_object('seen', seen) END;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.merge_marks(jsonb, bigint, jsonb) FROM PUBLIC;

-- The marks of the attempt with that fence once it has reported this; NULL: the report does not advance. Go's
-- task.Marks.Advance states the same rule, and a check compares them.
CREATE FUNCTION {schema}.advance(marks jsonb, with_fence bigint, progress jsonb, checkpoint jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    report jsonb;
    seen   jsonb := '[]';
BEGIN
    IF (marks ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        marks := jsonb_build_object('fence', with_fence);
    END IF;
    report := jsonb_build_object('fence', with_fence);
    IF jsonb_typeof(progress) = 'number' THEN
        report := report || jsonb_build_object('number', progress);
    ELSIF jsonb_typeof(progress -> 'done') = 'number' THEN
        report := report || jsonb_build_object('done', progress -> 'done');
    ELSIF progress IS NOT NULL THEN
        seen := seen || to_jsonb({schema}.digest_of('p', progress));
    END IF;
    IF checkpoint IS NOT NULL THEN
        seen := seen || to_jsonb({schema}.digest_of('c', checkpoint));
    END IF;
    report := {schema}.merge_marks(marks, with_fence, report || jsonb_build_object('seen', seen));
    RETURN CASE WHEN report <> marks THEN report END;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.advance(jsonb, bigint, jsonb, jsonb) FROM PUBLIC;

-- Takes in pings by those who were given the fences; an (id, fence) stands in it once. Arrays that are NULL are arrays of
-- NULL. answer: applied, lost, or busy where somebody's transaction keeps the row. Only a row that a claim holds is
-- pinged: one that is judged (claim 0) is nobody's. Rows are found by loops over the primary key; what is a real join
-- must be none, however few pings the planner expects.
CREATE FUNCTION {schema}.take_pings(
    ids bigint[], fences bigint[], progresses text[], messages text[], checkpoints text[], withins double precision[]
) RETURNS TABLE (
    place bigint, answer text, counted boolean, cancel boolean, reason text, remaining_s double precision
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_nestloop = off
    SET jit = off SET plan_cache_mode = force_generic_plan AS
$leasehold$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH said AS MATERIALIZED (
        SELECT u.place, u.id, u.fence, nullif(u.progress, '')::jsonb AS said_progress,
            nullif(u.message, '') AS said_message, nullif(u.checkpoint, '')::jsonb AS said_checkpoint, u.within
        FROM unnest(ids, fences, progresses, messages, checkpoints, withins)
            WITH ORDINALITY AS u (id, fence, progress, message, checkpoint, within, place)
    ), hit AS MATERIALIZED (
        SELECT i.*, t.* FROM said AS i LEFT JOIN LATERAL (
            SELECT r.id AS held, r.state, r.policy, r.claimed_at, r.lease_until, r.deadline, r.cancel_by, r.progress, r.checkpoint,
                r.marks, r.state = 'running' AND r.cancel_asked IS NOT NULL AS asked, clock_timestamp() AS heard
            FROM {schema}.task AS r
            WHERE r.id = i.id AND r.fence = i.fence AND r.claim > 0 AND r.lease_until > clock_timestamp()
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS t ON true
    ), under AS MATERIALIZED ( -- the terms of the row's policy, for its phase; none where the policy is not there
        SELECT h.*, coalesce((p.terms ->> 'require_progress')::boolean, false) AS strict,
            {schema}.length_in(p.terms, 'heartbeat') AS beat, {schema}.length_in(p.terms, 'stop') AS stop,
            {schema}.length_in(p.terms, 'max_heartbeat') AS longest,
            -- 1 s: how long the row may wait inside its agent.
            least(coalesce(h.claimed_at + interval '1 second' + {schema}.length_in(p.terms, 'timeout')
                      + coalesce({schema}.length_in(p.terms, 'check'), '0'), h.lease_until),
                  CASE h.state WHEN 'running' THEN h.deadline END) AS ends
        FROM hit AS h LEFT JOIN LATERAL (
            SELECT CASE h.state WHEN 'running' THEN p.body ELSE coalesce(p.body -> 'rollback', p.body - 'check') END AS terms
            FROM {schema}.policy AS p WHERE p.hash = h.policy LIMIT 1
        ) AS p ON true
    ), moved AS MATERIALIZED (
        SELECT u.*, CASE WHEN u.strict AND u.held IS NOT NULL
            THEN {schema}.advance(u.marks, u.fence, u.said_progress, u.said_checkpoint) END AS advanced
        FROM under AS u
    ), judged AS MATERIALIZED (
        SELECT u.*, c.counted,
            -- A longer window may be asked for, never a shorter one.
            CASE WHEN c.counted AND u.held IS NOT NULL AND u.beat IS NOT NULL THEN least(u.ends, u.heard + greatest(u.beat,
                CASE WHEN u.within IS NOT NULL
                    THEN least(least(u.within, 1e9) * interval '1 second', coalesce(u.longest, '0')) END)) END AS due
        FROM moved AS u CROSS JOIN LATERAL (SELECT NOT u.strict OR u.advanced IS NOT NULL AS counted) AS c
    ), written AS (
        UPDATE {schema}.task AS r SET
            ping_due = coalesce(j.due, r.ping_due),
            lease_until = greatest(r.lease_until, j.due + coalesce(j.stop, '0')),
            progress = coalesce(j.said_progress, r.progress), message = coalesce(j.said_message, r.message),
            checkpoint = coalesce(j.said_checkpoint, r.checkpoint), marks = coalesce(j.advanced, r.marks)
        FROM judged AS j
        WHERE r.id = ANY (ARRAY(
            SELECT w.held FROM judged AS w WHERE w.due IS NOT NULL OR w.said_progress IS NOT NULL
                OR w.said_message IS NOT NULL OR w.said_checkpoint IS NOT NULL)) AND j.held = r.id
    )
    SELECT j.place, CASE WHEN j.held IS NOT NULL THEN 'applied' WHEN kept.id IS NOT NULL THEN 'busy' ELSE 'lost' END,
        j.held IS NOT NULL AND j.counted, coalesce(j.asked, false),
        CASE WHEN j.asked THEN 'a cancellation was asked for' || coalesce(' by ' || j.cancel_by, '')
             WHEN NOT j.counted THEN 'progress did not change' END,
        coalesce(greatest(extract(epoch FROM j.ends - j.heard), 0), 0)::double precision
    FROM judged AS j LEFT JOIN LATERAL (
        SELECT r.id FROM {schema}.task AS r
        WHERE j.held IS NULL AND r.id = j.id AND r.fence = j.fence AND r.claim > 0
          AND r.lease_until > clock_timestamp() LIMIT 1
    ) AS kept ON true
    ORDER BY j.place;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.take_pings(bigint[], bigint[], text[], text[], text[], double precision[]) FROM PUBLIC;

-- A ping by SQL. progress is a number from 0 to 1, an object of done and total, or any other text, which names a
-- position. It belongs into a transaction of its own: until that commits, nobody knows of the ping.
CREATE FUNCTION {schema}.ping(
    id bigint, fence bigint, progress text DEFAULT NULL, checkpoint jsonb DEFAULT NULL, message text DEFAULT NULL,
    next_within_s double precision DEFAULT NULL
) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    said  jsonb;
    reply  record;
    over  integer;
BEGIN
    IF progress ~ '^(0(\.[0-9]{1,30})?|1(\.0{1,30})?|[1-9](\.[0-9]{1,30})?[eE]-[0-9]{1,2})$' THEN
        said := progress::jsonb;
    ELSIF progress LIKE '{%' AND octet_length(progress) <= 1024 THEN
        BEGIN
            said := progress::jsonb;
            IF NOT (said ?& ARRAY['done', 'total'] AND said - 'done' - 'total' = '{}'
                    AND jsonb_typeof(said -> 'done') = 'number' AND jsonb_typeof(said -> 'total') = 'number') THEN
                said := to_jsonb(progress);
            END IF;
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            said := to_jsonb(progress);
        END;
    ELSIF progress <> '' THEN
        said := to_jsonb(progress);
    END IF;
    IF octet_length(said::text) > 1024 THEN
        RAISE EXCEPTION 'progress must be 1 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF {schema}.length_of(checkpoint) > 65536 THEN
        RAISE EXCEPTION 'checkpoint must be 64 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF next_within_s <= 0 OR next_within_s = 'NaN' THEN
        RAISE EXCEPTION 'next_within_s must be positive' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- A message is cut rather than refused, by characters and not in the middle of one, each of which takes 4 bytes at most.
    LOOP
        over := octet_length(message) - 4096;
        EXIT WHEN over <= 0 OR over IS NULL;
        message := left(message, -greatest(over / 4, 1));
    END LOOP;
    -- Whoever keeps the row is waited for.
    PERFORM FROM {schema}.task AS t WHERE t.id = ping.id AND t.fence = ping.fence FOR NO KEY UPDATE;
    SELECT * INTO reply FROM {schema}.take_pings(ARRAY[id], ARRAY[fence], ARRAY[said::text], ARRAY[message],
        ARRAY[checkpoint::text], ARRAY[next_within_s]);
    IF reply.answer <> 'applied' THEN
        PERFORM {schema}.gone(id, fence);
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object('counted', reply.counted, 'cancel', reply.cancel, 'reason', reply.reason,
        'remaining_s', round(reply.remaining_s::numeric, 3)));
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.ping(bigint, bigint, text, jsonb, text, double precision) FROM PUBLIC;

-- Keeps the row where it is until the caller's transaction ends, provided that the attempt still holds it. Renewals,
-- pings and cancellations pass such a lock; whoever takes rows away passes them over.
CREATE FUNCTION {schema}.hold(id bigint, fence bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
BEGIN
    PERFORM FROM {schema}.task AS t
    WHERE t.id = hold.id AND t.fence = hold.fence AND t.claim > 0 AND t.lease_until > clock_timestamp()
    FOR KEY SHARE;
    IF NOT FOUND THEN
        PERFORM {schema}.gone(id, fence);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.hold(bigint, bigint) FROM PUBLIC;

-- Moves a live row, as the caller has changed it, to the archive. Agents make the archive's partitions ahead; where none
-- has been there for days, today's is made here.
CREATE FUNCTION {schema}.bury(t {schema}.task, began timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
BEGIN
    PERFORM {schema}.make_place(ended);
    DELETE FROM {schema}.task AS r WHERE r.id = t.id;
    INSERT INTO {schema}.task_archive (
        id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, attempt, deferrals, ever_started, fence, session, policy, claimed_at, deadline, outcome, error, result,
        started_at, finished_at, cancel_asked, cancel_by, message, progress, checkpoint)
    VALUES (t.id, t.type, t.state, t.priority, t.region, t.key, t.run_at, t.payload, t.labels, t.traceparent,
        t.created_by, t.max_attempts, t.created_at, t.attempt, t.deferrals, t.ever_started, t.fence, t.session, t.policy,
        t.claimed_at, t.deadline, t.outcome, t.error, t.result, began, ended, t.cancel_asked, t.cancel_by, t.message,
        t.progress, t.checkpoint);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.bury({schema}.task, timestamptz) FROM PUBLIC;

-- Ends the attempt that was given the fence as succeeded. applied, ended (it has ended so before), lost, or busy where
-- somebody's transaction keeps the row and wait is false. When the attempt itself began is not known here: it was
-- claimed then.
CREATE FUNCTION {schema}.take_complete(of bigint, with_fence bigint, wait boolean, new_result jsonb) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    t {schema}.task;
BEGIN
    IF wait THEN
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE;
    ELSE
        SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE SKIP LOCKED;
    END IF;
    IF t.id IS NULL THEN
        -- In this order: a row goes from the one table to the other.
        IF EXISTS (SELECT FROM {schema}.task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0) THEN
            RETURN 'busy';
        ELSIF EXISTS (SELECT FROM {schema}.task_archive AS a
                      WHERE a.id = of AND a.fence = with_fence + 1 AND a.outcome = 'succeeded') THEN
            RETURN 'ended';
        END IF;
        RETURN 'lost';
    END IF;
    IF t.state = 'rollback_running' OR t.attempt <> 1 THEN -- of a first attempt the archive tells all there is
        INSERT INTO {schema}.attempt (
            task_id, fence, ran_fence, session, phase, attempt, outcome, result, state, started_at, ended_at)
        VALUES (of, with_fence, with_fence, t.session, CASE t.state WHEN 'running' THEN 'run' ELSE 'rollback' END,
            t.attempt, 'succeeded', new_result, CASE t.state WHEN 'running' THEN 'succeeded' ELSE 'rolled_back' END,
            t.claimed_at, clock_timestamp());
    END IF;
    t.state := CASE t.state WHEN 'running' THEN 'succeeded' ELSE 'rolled_back' END;
    t.fence := t.fence + 1;
    t.outcome := 'succeeded';
    t.error := NULL;
    t.result := CASE WHEN t.state = 'succeeded' AND t.attempt = 1 THEN new_result ELSE coalesce(new_result, t.result) END;
    t.deferrals := 0;
    t.ever_started := true;
    PERFORM {schema}.bury(t, t.claimed_at);
    RETURN 'applied';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.take_complete(bigint, bigint, boolean, jsonb) FROM PUBLIC;

-- Completes a task in the caller's transaction. A repeat is quiet.
CREATE FUNCTION {schema}.complete(id bigint, fence bigint, result jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF {schema}.length_of(result) > 65536 THEN
        RAISE EXCEPTION 'result must be 64 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF {schema}.take_complete(id, fence, true, result) NOT IN ('applied', 'ended') THEN
        PERFORM {schema}.gone(id, fence);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.complete(bigint, bigint, jsonb) FROM PUBLIC;

-- Calls a task off and tells what became of that: its state, or 'cancelling' where it runs and is being told to stop. A
-- repeat changes nothing. by is for the audit; by default it is the role that asks, and '' is nobody.
CREATE FUNCTION {schema}.cancel(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    t     {schema}.task;
    ended text;
    who   text := nullif(coalesce(by, session_user), '');
BEGIN
    IF octet_length(who) > 512 THEN
        RAISE EXCEPTION 'by must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- An application that keeps the row (FOR KEY SHARE) does not stand in the way of this lock.
    SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = cancel.id FOR NO KEY UPDATE;
    IF t.id IS NULL THEN
        SELECT a.state INTO ended FROM {schema}.task_archive AS a WHERE a.id = cancel.id LIMIT 1;
        IF ended IS NULL THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        END IF;
        RETURN ended;
    ELSIF t.state = 'running' THEN
        IF t.cancel_asked IS NULL THEN
            UPDATE {schema}.task AS r SET cancel_asked = clock_timestamp(), cancel_by = who WHERE r.id = cancel.id;
            PERFORM pg_notify({channel_literal}, 'asked');
        END IF;
        RETURN 'cancelling';
    ELSIF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    END IF;
    t.outcome := 'cancelled';
    t.error := CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END
        || coalesce(', by ' || who, '');
    IF t.ever_started AND EXISTS (SELECT FROM {schema}.policy AS p WHERE p.hash = t.policy AND p.body ? 'rollback') THEN
        UPDATE {schema}.task AS r SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = clock_timestamp(), fence = r.fence + 1,
            outcome = t.outcome, error = t.error
        WHERE r.id = cancel.id;
        PERFORM pg_notify({channel_literal}, '');
        RETURN 'rollback_pending';
    END IF;
    t.state := 'cancelled';
    t.fence := t.fence + 1;
    t.cancel_asked := clock_timestamp();
    t.cancel_by := who;
    PERFORM {schema}.bury(t, NULL);
    RETURN 'cancelled';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel(bigint, text) FROM PUBLIC;
