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
