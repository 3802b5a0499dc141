-- What operators do with the waiting rows of a type that no present agent declares. Each call is one step of at most a thousand changed rows,
-- and returns as JSON how many it has changed, what it left and why, and where the next one is to begin. Agents may claim meanwhile, and
-- begin to declare the type: a step changes only rows that it has locked, and skips what another transaction has locked.

-- Raises where rows of a type are no orphans, because a present agent declares it, and where arguments are wrong.
CREATE OR REPLACE FUNCTION {schema}.check_orphans(of_type text, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    declarer text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the isolation level must be READ COMMITTED' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF of_type IS NULL OR of_type = '' OR octet_length(of_type) > 255 THEN
        RAISE EXCEPTION 'type must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(why) > 512 THEN
        RAISE EXCEPTION 'reason must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT a.name INTO declarer FROM {schema}.agent AS a
    WHERE a.present_until > now() AND a.workers > 0 AND check_orphans.of_type = ANY (a.types) ORDER BY a.name LIMIT 1;
    IF declarer IS NOT NULL THEN
        PERFORM {schema}.raise_conflict(format('agent %s declares the type %s: its tasks are no orphans', to_json(declarer), to_json(of_type)));
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.check_orphans(text, text) FROM PUBLIC;

-- Finds the next waiting rows of a type behind an id, at most a thousand, and looks at ten thousand rows at most. last is the one that it
-- looked at last, and done that there are no more.
CREATE OR REPLACE FUNCTION {schema}.find_orphans(
    of_type text, after bigint, to_cancel boolean, OUT ids bigint[], OUT last bigint, OUT done boolean
)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
BEGIN
    SELECT coalesce(array_agg(w.id ORDER BY w.id) FILTER (WHERE w.hit), '{}'), coalesce(max(w.id), after), count(*) < 10000
    INTO ids, last, done
    FROM (
        SELECT r.id, r.type = find_orphans.of_type
            AND (r.state IN ('pending', 'retry_pending') OR r.state = 'rollback_pending' AND NOT find_orphans.to_cancel)
            AND (r.sequence IS NULL OR find_orphans.to_cancel) AS hit
        FROM {schema}.task AS r WHERE r.id > find_orphans.after ORDER BY r.id LIMIT 10000
    ) AS w;
    IF cardinality(ids) > 1000 THEN
        ids := ids[1:1000];
        last := ids[1000];
        done := false;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.find_orphans(text, bigint, boolean) FROM PUBLIC;

-- Cancels the next waiting rows of a type that no present agent declares, as cancel does. after is "next" of the step before. With preview
-- it changes nothing, and counts.
CREATE OR REPLACE FUNCTION {schema}.cancel_orphans(
    type text, after jsonb DEFAULT NULL, preview boolean DEFAULT false, reason text DEFAULT NULL, by text DEFAULT NULL
) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    who  text := {schema}.requester(by);
    why  text := nullif(reason, '');
    seen record;
    mine bigint[];
    hit  record;
    busy jsonb := '[]';
BEGIN
    PERFORM {schema}.check_orphans(type, why);
    SELECT * INTO seen FROM {schema}.find_orphans(type, coalesce((after ->> 'id')::bigint, 0), true);
    IF NOT preview AND cardinality(seen.ids) > 0 THEN
        PERFORM {schema}.ensure_partition(clock_timestamp()); -- it may wait, and no row is locked yet
        mine := ARRAY(SELECT t.id FROM unnest(seen.ids) AS u (id) CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.task AS r
            WHERE r.id = u.id AND r.type = cancel_orphans.type AND r.state IN ('pending', 'retry_pending') LIMIT 1 FOR UPDATE SKIP LOCKED) AS t);
        busy := (SELECT coalesce(jsonb_agg(jsonb_build_object('task_id', t.id, 'reason', 'busy', 'rows', 1) ORDER BY t.id), '[]')
            FROM unnest(seen.ids) AS u (id) CROSS JOIN LATERAL (
                SELECT r.id FROM {schema}.task AS r
                WHERE r.id = u.id AND r.type = cancel_orphans.type AND r.state IN ('pending', 'retry_pending') LIMIT 1) AS t
            WHERE (t.id IN (SELECT m.id FROM unnest(mine) AS m (id))) IS NOT TRUE);
        seen.ids := mine;
    END IF;
    SELECT coalesce(array_agg(t.id ORDER BY t.id), '{}') AS ids, coalesce(array_agg(t.back ORDER BY t.id), '{}') AS rolls_back,
        count(*) FILTER (WHERE t.back) AS backs INTO hit
    FROM (
        SELECT r.id, r.ever_started AND {schema}.can_roll_back(NULL, r.policy) AS back
        FROM unnest(seen.ids) AS u (id)
        CROSS JOIN LATERAL (SELECT e.id, e.ever_started, e.policy FROM {schema}.task AS e WHERE e.id = u.id LIMIT 1) AS r
    ) AS t;
    IF NOT preview AND cardinality(hit.ids) > 0 THEN
        PERFORM {schema}.cancel_rows(hit.ids, hit.rolls_back, who);
        INSERT INTO {schema}.audit (requested_by, verb, task_id, reason, answer)
        SELECT who, 'cancel', u.id, why, CASE WHEN u.back THEN 'rollback_pending' ELSE 'cancelled' END
        FROM unnest(hit.ids, hit.rolls_back) AS u (id, back);
        INSERT INTO {schema}.audit (requested_by, verb, type, reason, answer)
        VALUES (who, 'cancel', cancel_orphans.type, why, format('cancelled %s', cardinality(hit.ids)));
    END IF;
    RETURN jsonb_build_object('changed', cardinality(hit.ids), 'rolls_back', hit.backs, 'left', busy, 'next', jsonb_build_object('id', seen.last),
        'done', seen.done);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_orphans(text, jsonb, boolean, text, text) FROM PUBLIC;

-- Gives rows another type, which the caller has locked (FOR UPDATE, so that no follower of theirs can come meanwhile), and their followers
-- with them. What waited for its turn in a sequence of the old type is a candidate of the new one. Notes have promotions look at the locks,
-- since rows wait by type, and at the sequences that are left. A key that another row has in the meantime fails (unique_violation).
CREATE OR REPLACE FUNCTION {schema}.move_rows(ids bigint[], of_type text, into_type text, who text, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    owned text[];
BEGIN
    WITH moved AS (
        UPDATE {schema}.task AS t SET type = move_rows.into_type, held = nullif(t.held, 'sequence'),
            -- The bound on payloads may have been lowered since the row was inserted: it is for those with fence 0.
            fence = CASE WHEN greatest(pg_column_size(t.payload), pg_column_size(t.rollback_payload))
                > (SELECT s.max_payload FROM {schema}.setting AS s) THEN greatest(t.fence, 1) ELSE t.fence END
        WHERE t.id = ANY (move_rows.ids) RETURNING t.id, t.key, t.lock, t.sequence
    ), unlocked AS (
        INSERT INTO {schema}.lock_note (name) SELECT DISTINCT m.lock FROM moved AS m WHERE m.lock IS NOT NULL
    ), turned AS (
        INSERT INTO {schema}.sequence_note (type, name)
        SELECT DISTINCT move_rows.of_type, m.sequence FROM moved AS m WHERE m.sequence IS NOT NULL
    ), noted AS (
        INSERT INTO {schema}.audit (requested_by, verb, task_id, reason, answer)
        SELECT move_rows.who, 'move', m.id, move_rows.why,
            format('moved from %s to %s', to_json(move_rows.of_type), to_json(move_rows.into_type))
        FROM moved AS m ORDER BY m.id
    )
    SELECT array_agg(m.key) INTO owned FROM moved AS m WHERE m.key IS NOT NULL;
    IF owned IS NOT NULL THEN
        UPDATE {schema}.follow AS f SET type = move_rows.into_type,
            fence = CASE WHEN greatest(pg_column_size(f.payload), pg_column_size(f.rollback_payload))
                > (SELECT s.max_payload FROM {schema}.setting AS s) THEN greatest(f.fence, 1) ELSE f.fence END
        WHERE f.type = move_rows.of_type AND f.key = ANY (owned);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.move_rows(bigint[], text, text, text, text) FROM PUBLIC;

-- Finds the next sequences of a type behind one, with a thousand rows at most in all, or one that has more.
CREATE OR REPLACE FUNCTION {schema}.find_orphan_sequences(
    of_type text, after text, OUT names text[], OUT last text, OUT done boolean
)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    seen bigint;
BEGIN
    SELECT coalesce(array_agg(DISTINCT w.name), '{}'), max(w.name), count(*) INTO names, last, seen
    FROM (
        SELECT r.sequence AS name FROM {schema}.task AS r
        WHERE r.type = find_orphan_sequences.of_type AND r.sequence IS NOT NULL AND r.sequence > find_orphan_sequences.after
        ORDER BY r.type, r.sequence, r.id LIMIT 1001
    ) AS w;
    done := seen <= 1000;
    IF done THEN
        last := coalesce(last, after);
    ELSIF cardinality(names) > 1 THEN -- the last one may have more rows
        names := ARRAY(SELECT u.name FROM unnest(names) AS u (name) WHERE u.name COLLATE "C" < last COLLATE "C");
        last := (SELECT max(u.name COLLATE "C") FROM unnest(names) AS u (name));
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.find_orphan_sequences(text, text) FROM PUBLIC;

-- Judges waiting rows: those of ids, and all of sequences of a type. good are those that may get another type, with their sequences, and
-- stay says of the others why not. A sequence is moved as a whole or not at all, as two types would not wait for each other. mine are the rows
-- that are locked; NULL: that does not matter.
CREATE OR REPLACE FUNCTION {schema}.judge_orphans(
    of_type text, into_type text, ids bigint[], names text[], mine bigint[], OUT good bigint[], OUT good_names text[], OUT stay jsonb
)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    capable bigint[] := (SELECT c.hashes FROM {schema}.with_rollback() AS c);
    able    boolean := {schema}.can_roll_back(into_type, NULL);
    blocks  boolean := (SELECT p.on_failure FROM {schema}.sequence_rule AS p WHERE p.type = judge_orphans.of_type) IS DISTINCT FROM 'continue';
BEGIN
    WITH found AS MATERIALIZED (
        SELECT t.id, t.sequence, t.state, t.key, t.ever_started, t.policy FROM unnest(judge_orphans.ids) AS u (id)
        CROSS JOIN LATERAL (
            SELECT r.* FROM {schema}.task AS r WHERE r.id = u.id AND r.type = judge_orphans.of_type AND r.sequence IS NULL
                AND r.state IN ('pending', 'retry_pending', 'rollback_pending') LIMIT 1) AS t
        UNION ALL
        SELECT t.id, t.sequence, t.state, t.key, t.ever_started, t.policy FROM unnest(judge_orphans.names) AS u (name)
        CROSS JOIN LATERAL (
            SELECT r.* FROM {schema}.task AS r WHERE r.type = judge_orphans.of_type AND r.sequence = u.name COLLATE "C"
            ORDER BY r.type, r.sequence, r.id LIMIT 1001) AS t
    ), judged AS MATERIALIZED (
        SELECT f.id, f.sequence AS name, f.state NOT IN ('running', 'rollback_running') AS waits, CASE
            WHEN f.state IN ('running', 'rollback_running') THEN 'running'
            WHEN judge_orphans.mine IS NOT NULL AND (f.id IN (SELECT m.id FROM unnest(judge_orphans.mine) AS m (id))) IS NOT TRUE THEN 'busy'
            WHEN (f.state = 'rollback_pending' OR f.ever_started AND f.policy = ANY (capable)) AND NOT able THEN 'no_rollback'
            WHEN f.key IS NOT NULL AND (SELECT k.id FROM {schema}.task AS k
                WHERE k.type = judge_orphans.into_type AND k.key = f.key LIMIT 1) IS NOT NULL THEN 'key' END AS why
        FROM found AS f
    ), whole AS MATERIALIZED (
        SELECT s.name, s.waiting, coalesce(s.of, s.least) AS of, CASE
            WHEN s.why IS NOT NULL THEN s.why
            WHEN s.total > 1000 THEN 'long'
            WHEN blocks AND (SELECT x.task_id FROM {schema}.sequence_failure AS x
                WHERE x.type = judge_orphans.of_type AND x.name = s.name LIMIT 1) IS NOT NULL THEN 'failure'
            WHEN (SELECT o.name FROM {schema}.sequence_note AS o WHERE o.until IS NOT NULL AND o.type = judge_orphans.of_type
                AND o.name = s.name AND o.until > clock_timestamp() LIMIT 1) IS NOT NULL THEN 'running' END AS why
        FROM (
            SELECT j.name, count(*) AS total, count(*) FILTER (WHERE j.waits) AS waiting, min(j.id) AS least,
                (array_agg(j.why ORDER BY j.id) FILTER (WHERE j.why IS NOT NULL))[1] AS why,
                min(j.id) FILTER (WHERE j.why IS NOT NULL) AS of
            FROM judged AS j WHERE j.name IS NOT NULL GROUP BY j.name
        ) AS s WHERE s.waiting > 0
    ), fine AS MATERIALIZED (
        SELECT j.id, j.name FROM judged AS j WHERE j.name IS NULL AND j.why IS NULL
        UNION ALL
        SELECT j.id, j.name FROM judged AS j JOIN whole AS w ON w.name = j.name AND w.why IS NULL
    ), bad AS (
        SELECT j.id, jsonb_build_object('task_id', j.id, 'reason', j.why, 'rows', 1) AS of FROM judged AS j
        WHERE j.name IS NULL AND j.why IS NOT NULL
        UNION ALL
        SELECT w.of, jsonb_build_object('task_id', w.of, 'sequence', w.name, 'reason', w.why, 'rows', w.waiting) FROM whole AS w
        WHERE w.why IS NOT NULL
    )
    SELECT coalesce((SELECT array_agg(f.id ORDER BY f.id) FROM fine AS f), '{}'),
        coalesce((SELECT array_agg(f.name ORDER BY f.id) FROM fine AS f), '{}'),
        coalesce((SELECT jsonb_agg(b.of ORDER BY b.id) FROM bad AS b), '[]')
    INTO good, good_names, stay;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.judge_orphans(text, text, bigint[], text[], bigint[]) FROM PUBLIC;

-- Gives the next waiting rows of a type that no present agent declares another type: first those without a sequence, then whole sequences.
-- after is "next" of the step before. With preview it changes nothing, and counts. It waits for no transaction for long: a row whose key
-- another is about to insert under the other type stays, as busy.
CREATE OR REPLACE FUNCTION {schema}.move_orphans(
    type text, into_type text, after jsonb DEFAULT NULL, preview boolean DEFAULT false, reason text DEFAULT NULL, by text DEFAULT NULL
) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off SET lock_timeout = '200ms' AS
$leasehold$
DECLARE
    who    text := {schema}.requester(by);
    why    text := nullif(reason, '');
    rows   bigint[] := '{}'; -- without a sequence
    names  text[] := '{}';
    next   jsonb;
    done   boolean := false;
    seen   record;
    mine   bigint[];
    hit    record;
    moved  integer := 0;
    busy   integer := 0;
    part   record;
    reject text;
BEGIN
    PERFORM {schema}.check_orphans(type, why);
    IF into_type IS NULL OR into_type = '' OR octet_length(into_type) > 255 OR into_type = type THEN
        RAISE EXCEPTION 'the other type must have 1 to 255 bytes, and be another' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF coalesce((after ->> 'sequences')::boolean, false) THEN
        SELECT * INTO seen FROM {schema}.find_orphan_sequences(type, coalesce(after ->> 'sequence', ''));
        names := seen.names;
        next := jsonb_build_object('sequences', true, 'sequence', seen.last);
        done := seen.done;
    ELSE
        SELECT * INTO seen FROM {schema}.find_orphans(type, coalesce((after ->> 'id')::bigint, 0), false);
        rows := seen.ids;
        next := CASE WHEN seen.done THEN jsonb_build_object('sequences', true) ELSE jsonb_build_object('id', seen.last) END;
    END IF;
    IF NOT preview THEN
        mine := ARRAY(
            SELECT t.id FROM unnest(rows) AS u (id) CROSS JOIN LATERAL (
                SELECT r.id FROM {schema}.task AS r WHERE r.id = u.id AND r.type = move_orphans.type AND r.sequence IS NULL
                    AND r.state IN ('pending', 'retry_pending', 'rollback_pending') LIMIT 1 FOR UPDATE SKIP LOCKED) AS t
        ) || ARRAY(
            SELECT t.id FROM unnest(names) AS u (name) CROSS JOIN LATERAL (
                SELECT r.id FROM {schema}.task AS r WHERE r.type = move_orphans.type AND r.sequence = u.name COLLATE "C"
                    AND r.state IN ('pending', 'retry_pending', 'rollback_pending')
                ORDER BY r.type, r.sequence, r.id LIMIT 1001 FOR UPDATE SKIP LOCKED) AS t);
    END IF;
    SELECT * INTO hit FROM {schema}.judge_orphans(type, into_type, rows, names, mine); -- it sees what has committed by now
    IF preview THEN
        moved := cardinality(hit.good);
    ELSIF cardinality(hit.good) > 0 THEN
        BEGIN
            PERFORM {schema}.move_rows(hit.good, type, into_type, who, why);
            moved := cardinality(hit.good);
        EXCEPTION WHEN unique_violation OR lock_not_available OR deadlock_detected THEN
            -- Another transaction inserts one of the keys. Each row, or sequence, is tried alone, but no more once several had to wait.
            FOR part IN SELECT array_agg(u.id ORDER BY u.id) AS ids, u.name FROM unnest(hit.good, hit.good_names) AS u (id, name)
                GROUP BY u.name, CASE WHEN u.name IS NULL THEN u.id END ORDER BY min(u.id)
            LOOP
                reject := CASE WHEN busy > 5 THEN 'busy' END;
                IF reject IS NULL THEN
                    BEGIN
                        PERFORM {schema}.move_rows(part.ids, type, into_type, who, why);
                        moved := moved + cardinality(part.ids);
                    EXCEPTION WHEN unique_violation THEN
                        reject := 'key';
                    WHEN lock_not_available OR deadlock_detected THEN
                        reject := 'busy';
                        busy := busy + 1;
                    END;
                END IF;
                IF reject IS NOT NULL THEN
                    hit.stay := hit.stay || jsonb_strip_nulls(jsonb_build_object(
                        'task_id', part.ids[1], 'sequence', part.name, 'reason', reject, 'rows', cardinality(part.ids)));
                END IF;
            END LOOP;
        END;
    END IF;
    IF moved > 0 AND NOT preview THEN
        INSERT INTO {schema}.audit (requested_by, verb, type, reason, answer)
        VALUES (who, 'move', move_orphans.type, why, format('moved %s to %s', moved, to_json(into_type)));
        PERFORM pg_notify({channel_literal}, '');
    END IF;
    RETURN jsonb_build_object('changed', moved, 'left', hit.stay, 'next', next, 'done', done);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.move_orphans(text, text, jsonb, boolean, text, text) FROM PUBLIC;
