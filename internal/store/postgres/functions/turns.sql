-- Turns of sequences. Rows of a type with the same sequence run one after another. A row comes as a candidate, which claims look at. The
-- first claim that meets a row of a sequence chooses its head, which alone may start; the others are held back (held). The head keeps its
-- turn until it is archived, through backoff and rollback; then a promotion, or another claim, chooses the next one.
--
-- As with locks (functions/locks.sql), claims and promotions lock the sequence's row in sequence_holder first, skip what another has locked,
-- and look at what has committed by then in later statements. A row is held back only by a transaction that saw that another one is the
-- head, or that a failure blocks the sequence. What ends the one or resolves the other leaves a note.

-- Chooses the heads of sequences whose rows in sequence_holder the caller has locked, where there is none any more. heads are those that it has
-- found there, and becomes what they are now. freed are those that are held back, locked: the caller makes candidates of them, or starts them.
-- Sequences whose head another transaction has locked are stuck: it is the head all the same, and is freed by the next call. Where fresh is
-- set, only new heads are freed.
CREATE OR REPLACE FUNCTION {schema}.choose_heads(
    types text[], names text[], fresh boolean, INOUT heads bigint[], OUT freed bigint[], OUT stuck_types text[], OUT stuck_names text[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    before bigint[] := heads;
BEGIN
    heads := ARRAY(SELECT n.id FROM (
        SELECT s.place, CASE WHEN s.over THEN ({next_turn}) ELSE s.task_id END AS id FROM (
            SELECT h.place, h.type, h.name, h.task_id, ({turn_is_over}) AS over
            FROM unnest(types, names, heads) WITH ORDINALITY AS h (type, name, task_id, place) OFFSET 0
        ) AS s OFFSET 0) AS n ORDER BY n.place);
    UPDATE {schema}.sequence_holder AS h SET task_id = n.id FROM (
        SELECT u.type, u.name, u.id FROM unnest(types, names, before, heads) AS u (type, name, was, id)
        WHERE u.was IS DISTINCT FROM u.id OFFSET 0) AS n
    WHERE h.type = n.type AND h.name = n.name;
    freed := ARRAY(
        SELECT t.id FROM unnest(types, names, before, heads) AS u (type, name, was, id)
        CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.task AS r WHERE r.id = u.id AND r.held = 'sequence' AND r.type = u.type AND r.sequence = u.name
            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS t
        WHERE NOT fresh OR u.was IS DISTINCT FROM u.id);
    stuck_types := '{}';
    stuck_names := '{}';
    IF cardinality(freed) < (SELECT count(u.id) FROM unnest(before, heads) AS u (was, id) WHERE NOT fresh OR u.was IS DISTINCT FROM u.id) THEN
        SELECT coalesce(array_agg(u.type), '{}'), coalesce(array_agg(u.name), '{}') INTO stuck_types, stuck_names
        FROM unnest(types, names, heads) AS u (type, name, id)
        CROSS JOIN LATERAL (
            SELECT FROM {schema}.task AS r WHERE r.id = u.id AND r.held = 'sequence' AND r.type = u.type AND r.sequence = u.name
            LIMIT 1) AS t
        WHERE (u.id IN (SELECT d.id FROM unnest(freed) AS d (id))) IS NOT TRUE;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.choose_heads(text[], text[], boolean, bigint[]) FROM PUBLIC;

-- Returns which of the rows that a claim has picked and locked have their turn. The others are held back. Those of a sequence that another
-- transaction works on are left. INFO says so, as for take_locks.
CREATE OR REPLACE FUNCTION {schema}.take_turns(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    types      text[];
    names      text[];
    all_types  text[];   -- sequences, each once
    all_names  text[];
    mine_types text[];   -- those whose row is locked here
    mine_names text[];
    heads      bigint[]; -- of these
    new_types  text[];   -- those whose head is to be chosen
    new_names  text[];
    new_heads  bigint[];
    mine       bigint[]; -- rows of those that are locked here
    taken      bigint[];
    chosen     record;
    n          bigint;
BEGIN
    SELECT array_agg(r.type ORDER BY u.place), array_agg(r.sequence ORDER BY u.place) INTO types, names
    FROM unnest(ids) WITH ORDINALITY AS u (id, place)
    CROSS JOIN LATERAL (SELECT t.type, t.sequence FROM {schema}.task AS t WHERE t.id = u.id LIMIT 1) AS r;
    SELECT array_agg(u.type), array_agg(u.name) INTO all_types, all_names FROM (
        SELECT DISTINCT e.type, e.name COLLATE "C" AS name FROM unnest(types, names) AS e (type, name)
        ORDER BY e.type, e.name COLLATE "C") AS u;
    FOR round IN 1..2 LOOP
        SELECT coalesce(array_agg(h.type), '{}'), coalesce(array_agg(h.name), '{}'), coalesce(array_agg(h.task_id), '{}')
        INTO mine_types, mine_names, heads
        FROM unnest(all_types, all_names) AS u (type, name)
        CROSS JOIN LATERAL (
            SELECT k.type, k.name, k.task_id FROM {schema}.sequence_holder AS k WHERE k.type = u.type AND k.name = u.name
            LIMIT 1 FOR UPDATE SKIP LOCKED) AS h;
        EXIT WHEN round = 2 OR cardinality(mine_names) = cardinality(all_names);
        -- Claims that need the same new sequences wait for each other, in the order of the names and for as long as one takes. An INSERT of one
        -- that is there would wait for a promotion that has changed its row.
        INSERT INTO {schema}.sequence_holder (type, name)
        SELECT u.type, u.name FROM unnest(all_types, all_names) AS u (type, name)
        WHERE (SELECT k.type FROM {schema}.sequence_holder AS k WHERE k.type = u.type AND k.name = u.name LIMIT 1) IS NULL
        ORDER BY u.type, u.name
        ON CONFLICT (type, name) DO NOTHING;
    END LOOP;
    -- Most candidates are heads that a promotion has chosen. A head that is held back all the same has a note: promotions see to it. A head may
    -- be in another sequence by now, where its turn of this one counts for nothing.
    SELECT array_agg(u.type), array_agg(u.name), array_agg(u.head) INTO new_types, new_names, new_heads
    FROM unnest(mine_types, mine_names, heads) AS u (type, name, head)
    WHERE ((u.head, u.type, u.name) IN (SELECT e.id, e.type, e.name FROM unnest(ids, types, names) AS e (id, type, name))) IS NOT TRUE;
    IF new_types IS NOT NULL THEN
        SELECT * FROM {schema}.choose_heads(new_types, new_names, true, new_heads) INTO chosen;
        new_heads := chosen.heads;
        UPDATE {schema}.task AS t SET held = NULL WHERE t.id = ANY (chosen.freed);
        INSERT INTO {schema}.sequence_note (type, name)
        SELECT u.type, u.name FROM unnest(chosen.stuck_types, chosen.stuck_names) AS u (type, name);
    END IF;
    SELECT array_agg(u.id), array_agg(u.id) FILTER (WHERE (u.id, u.type, u.name) IN (
        SELECT h.head, h.type, h.name
        FROM unnest(mine_types || new_types, mine_names || new_names, heads || new_heads) AS h (type, name, head))) INTO mine, taken
    FROM unnest(ids, types, names) AS u (id, type, name)
    JOIN unnest(mine_types, mine_names) AS m (type, name) ON m.type = u.type AND m.name = u.name COLLATE "C";
    n := coalesce(cardinality(mine), 0) - coalesce(cardinality(taken), 0);
    IF n > 0 THEN
        UPDATE {schema}.task AS t SET held = 'sequence' WHERE t.id = ANY (ARRAY(
            SELECT u.id FROM unnest(mine) AS u (id) WHERE (u.id IN (SELECT s.id FROM unnest(taken) AS s (id))) IS NOT TRUE));
        RAISE INFO 'leasehold: % tasks wait for their turns', n USING ERRCODE = 'LH001';
    END IF;
    IF coalesce(cardinality(mine), 0) < cardinality(ids) THEN
        RAISE INFO 'leasehold: turns are being passed on' USING ERRCODE = 'LH002';
    END IF;
    RETURN taken;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.take_turns(bigint[]) FROM PUBLIC;

-- Passes turns on that notes are about, so many notes at most, as promote_locks does for locks.
CREATE OR REPLACE FUNCTION {schema}.promote_turns(
    most bigint, ask jsonb DEFAULT NULL,
    OUT promoted bigint, OUT noted bigint, OUT missed boolean, OUT next_us bigint, OUT started bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    notes      tid[];
    types      text[];
    names      text[];
    mine_types text[]; -- those whose row is locked here
    mine_names text[];
    heads      bigint[];
    stay_types text[] := '{}'; -- those whose notes stay
    stay_names text[] := '{}';
    patience   text := current_setting('lock_timeout');
    late       boolean := false; -- a claim that makes one of them has not committed yet
    chosen     record;
BEGIN
    promoted := 0;
    missed := false;
    started := '{}';
    next_us := (SELECT (extract(epoch FROM min(o.until) - clock_timestamp()) * 1000000)::bigint FROM {schema}.sequence_note AS o
        WHERE o.until IS NOT NULL AND o.until > clock_timestamp());
    SELECT array_agg(o.place), count(*) INTO notes, noted FROM (
        SELECT p.ctid AS place FROM {schema}.sequence_note AS p WHERE p.until IS NULL OR p.until <= clock_timestamp()
        LIMIT most FOR UPDATE SKIP LOCKED) AS o;
    IF noted = 0 THEN -- a claim leaves to others what they are passing on
        missed := ask IS NULL AND EXISTS (SELECT FROM {schema}.sequence_note AS o WHERE o.until IS NULL OR o.until <= clock_timestamp());
        RETURN;
    END IF;
    SELECT array_agg(e.type), array_agg(e.name) INTO types, names FROM (
        SELECT DISTINCT o.type, o.name FROM {schema}.sequence_note AS o WHERE o.ctid = ANY (notes) ORDER BY o.type, o.name) AS e;
    FOR round IN 1..2 LOOP
        SELECT coalesce(array_agg(h.type), '{}'), coalesce(array_agg(h.name), '{}'), coalesce(array_agg(h.task_id), '{}')
        INTO mine_types, mine_names, heads
        FROM unnest(types, names) AS u (type, name)
        CROSS JOIN LATERAL (
            SELECT k.type, k.name, k.task_id FROM {schema}.sequence_holder AS k WHERE k.type = u.type AND k.name = u.name
            LIMIT 1 FOR UPDATE SKIP LOCKED) AS h;
        EXIT WHEN round = 2 OR cardinality(mine_names) = cardinality(names);
        -- The first claim of a sequence may be holding rows back, for a reason that is over by now, and not have committed yet. It is waited
        -- for, as claims wait for each other, but only for a moment: then the notes stay.
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            INSERT INTO {schema}.sequence_holder (type, name)
            SELECT u.type, u.name FROM unnest(types, names) AS u (type, name)
            WHERE (SELECT k.type FROM {schema}.sequence_holder AS k WHERE k.type = u.type AND k.name = u.name LIMIT 1) IS NULL
              AND (SELECT t.id FROM {schema}.task AS t WHERE t.type = u.type AND t.sequence = u.name LIMIT 1) IS NOT NULL
            ORDER BY u.type, u.name
            ON CONFLICT (type, name) DO NOTHING;
            PERFORM set_config('lock_timeout', patience, true);
        EXCEPTION WHEN lock_not_available THEN
            late := true;
        END;
    END LOOP;
    IF cardinality(mine_names) < cardinality(names) THEN
        SELECT coalesce(array_agg(u.type), '{}'), coalesce(array_agg(u.name), '{}') INTO stay_types, stay_names
        FROM unnest(types, names) AS u (type, name)
        WHERE ((u.type, u.name) IN (SELECT m.type, m.name FROM unnest(mine_types, mine_names) AS m (type, name))) IS NOT TRUE
          AND (EXISTS (SELECT FROM {schema}.sequence_holder AS k WHERE k.type = u.type AND k.name = u.name)
              OR late AND (SELECT t.id FROM {schema}.task AS t WHERE t.type = u.type AND t.sequence = u.name LIMIT 1) IS NOT NULL);
    END IF;
    -- Where failures block nothing they are forgotten. One that is being revived goes with that.
    PERFORM FROM {schema}.sequence_rule AS p WHERE p.type = ANY (types) AND p.on_failure = 'continue';
    IF FOUND THEN
        DELETE FROM {schema}.sequence_failure AS f WHERE f.ctid = ANY (ARRAY(
            SELECT g.ctid FROM unnest(types, names) AS u (type, name)
            CROSS JOIN LATERAL (
                SELECT FROM {schema}.sequence_rule AS p WHERE p.type = u.type AND p.on_failure = 'continue' LIMIT 1) AS c
            CROSS JOIN LATERAL (
                SELECT e.ctid FROM {schema}.sequence_failure AS e WHERE e.type = u.type AND e.name = u.name FOR UPDATE SKIP LOCKED) AS g));
    END IF;
    SELECT * FROM {schema}.choose_heads(mine_types, mine_names, false, heads) INTO chosen;
    promoted := cardinality(chosen.freed);
    IF ask IS NOT NULL AND promoted > 0 THEN
        started := {schema}.start_first(chosen.freed, chosen.freed, ask);
    END IF;
    UPDATE {schema}.task AS t SET held = NULL WHERE t.id = ANY (ARRAY(
        SELECT u.id FROM unnest(chosen.freed) AS u (id) WHERE (u.id IN (SELECT s.id FROM unnest(started) AS s (id))) IS NOT TRUE));
    stay_types := stay_types || chosen.stuck_types;
    stay_names := stay_names || chosen.stuck_names;
    DELETE FROM {schema}.sequence_holder AS h USING (
        SELECT u.type, u.name FROM unnest(mine_types, mine_names, chosen.heads) AS u (type, name, head) WHERE u.head IS NULL OFFSET 0) AS u
    WHERE h.type = u.type AND h.name = u.name AND h.task_id IS NULL
      AND (SELECT t.id FROM {schema}.task AS t WHERE t.type = h.type AND t.sequence = h.name LIMIT 1) IS NULL -- h: only where there is no head
      AND (SELECT f.task_id FROM {schema}.sequence_failure AS f WHERE f.type = h.type AND f.name = h.name LIMIT 1) IS NULL;
    DELETE FROM {schema}.sequence_note AS o WHERE o.ctid = ANY (notes)
        AND (o.until IS NULL OR o.until <= clock_timestamp()) -- else the clock was set back meanwhile, and it lay ahead for choose_heads
        AND ((o.type, o.name) IN (SELECT s.type, s.name FROM unnest(stay_types, stay_names) AS s (type, name))) IS NOT TRUE;
    missed := cardinality(stay_types) > 0;
    IF promoted > cardinality(started) AND EXISTS (SELECT FROM {schema}.agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.promote_turns(bigint, jsonb) FROM PUBLIC;

-- Notes that a row with a sequence has been archived, and whether it has failed. What had succeeded, and was rolled back on request, has not.
CREATE OR REPLACE FUNCTION {schema}.sequence_left() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    INSERT INTO {schema}.sequence_note (until, type, name) VALUES (NEW.lease_until, NEW.type, NEW.sequence);
    IF NEW.state IN ('failed', 'cancelled', 'rollback_failed') OR NEW.state = 'rolled_back' AND NEW.cause IS DISTINCT FROM 'succeeded' THEN
        INSERT INTO {schema}.sequence_failure (task_id, type, name) VALUES (NEW.id, NEW.type, NEW.sequence) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.sequence_left() FROM PUBLIC;
