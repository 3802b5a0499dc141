-- Locks of tasks. A row with a lock comes as a candidate, which claims look at. A claim gives each free lock to its first candidate and
-- holds the others back (held); a promotion lets the first of those become candidates again once the lock is free. So a lock is held
-- by the row in lock_holder, while that runs and after it until a promotion, or another claim, has seen that it has ended.
--
-- Claims and promotions lock the row in lock_holder first, and look at what has committed by then in a later statement of theirs:
-- the snapshot of one statement is older than its locks. They skip what another has locked, and leave its candidates and notes as
-- they are. So whatever is held back was so by a transaction that saw the lock held, and kept its row locked until the commit: the end of
-- the one that held it leaves a note, which no promotion can have taken by then.
--
-- x IN (SELECT unnest(y)) is looked up in a hash table; the elements of an array of texts are found one after another.

-- Gives free locks to rows that a claim has picked and locked, in their order, and returns which rows may start; batches has NULL for a
-- row of none. The others of a lock that is held, or has just been given away, are held back. Those of a lock that another transaction
-- works on are left. INFO with LH001 says that rows were held back, and LH002 that some were left: it reaches the caller whatever
-- its settings are, and needs no row of the result.
CREATE OR REPLACE FUNCTION {schema}.take_locks(ids bigint[], names text[], batches bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    barred bigint[] := '{}';
    fresh  text[];   -- locks that were free
    mine   text[];   -- locks that are held, or were, and whose row is locked here
    free   text[];   -- of those, the ones whose holder has ended
    known  text[];   -- locks of which rows are held back, but those that start
    taken  bigint[];
    n      bigint;
    one    bigint;
BEGIN
    FOR one, n IN SELECT b.batch, count(*) FROM unnest(batches) AS b (batch) WHERE b.batch IS NOT NULL GROUP BY b.batch LOOP
        IF NOT {schema}.reserve_start(one, n) THEN
            barred := barred || one;
        END IF;
    END LOOP;
    IF cardinality(barred) > 0 THEN
        SELECT array_agg(u.id ORDER BY u.place), array_agg(u.name ORDER BY u.place), array_agg(u.batch ORDER BY u.place)
        INTO ids, names, batches
        FROM unnest(ids, names, batches) WITH ORDINALITY AS u (id, name, batch, place)
        WHERE u.batch IS NULL OR u.batch <> ALL (barred);
    END IF;
    mine := ARRAY(SELECT h.name FROM {schema}.lock_holder AS h
        WHERE h.name = ANY (ARRAY(SELECT DISTINCT u.name FROM unnest(names) AS u (name))) ORDER BY h.name FOR UPDATE SKIP LOCKED);
    -- Claims that need the same new locks wait for each other, in the order of the names and for as long as one takes. An INSERT of one that
    -- is there would wait for a promotion that has changed its row.
    WITH made AS (
        INSERT INTO {schema}.lock_holder AS h (name, task_id)
        SELECT n.name, n.id FROM (
            SELECT DISTINCT ON (u.name COLLATE "C") u.name COLLATE "C" AS name, u.id, u.place
            FROM unnest(ids, names) WITH ORDINALITY AS u (id, name, place)
            WHERE (u.name IN (SELECT m.name FROM unnest(mine) AS m (name))) IS NOT TRUE
            ORDER BY u.name COLLATE "C", u.place) AS n
        WHERE (SELECT k.name FROM {schema}.lock_holder AS k WHERE k.name = n.name LIMIT 1) IS NULL
        ORDER BY n.name
        ON CONFLICT (name) DO NOTHING
        RETURNING h.name, h.task_id
    )
    SELECT coalesce(array_agg(m.name ORDER BY m.name), '{}'), coalesce(array_agg(m.task_id), '{}') INTO fresh, taken FROM made AS m;
    IF cardinality(taken) < cardinality(ids) THEN
        IF cardinality(mine) + cardinality(fresh) < (SELECT count(DISTINCT u.name) FROM unnest(names) AS u (name)) THEN -- another has made them
            mine := mine || ARRAY(SELECT h.name FROM {schema}.lock_holder AS h
                WHERE h.name = ANY (names) AND (h.name IN (SELECT k.name FROM unnest(mine || fresh) AS k (name))) IS NOT TRUE
                ORDER BY h.name FOR UPDATE SKIP LOCKED);
        END IF;
        free := ARRAY(SELECT h.name FROM {schema}.lock_holder AS h
            WHERE h.name = ANY (mine) AND {lock_is_free} ORDER BY h.name);
        IF cardinality(free) > 0 THEN
            WITH followed AS (
                UPDATE {schema}.lock_holder AS h SET task_id = f.id FROM (
                    SELECT DISTINCT ON (u.name COLLATE "C") u.name COLLATE "C" AS name, u.id
                    FROM unnest(ids, names) WITH ORDINALITY AS u (id, name, place)
                    WHERE (u.name IN (SELECT e.name FROM unnest(free) AS e (name))) IS TRUE
                    ORDER BY u.name COLLATE "C", u.place) AS f
                WHERE h.name = f.name RETURNING h.task_id
            )
            SELECT taken || array_agg(f.task_id) INTO taken FROM followed AS f;
        END IF;
        known := fresh || mine;
        UPDATE {schema}.task AS t SET held = 'lock' WHERE t.id = ANY (ARRAY(
            SELECT u.id FROM unnest(ids, names) AS u (id, name)
            WHERE (u.id IN (SELECT s.id FROM unnest(taken) AS s (id))) IS NOT TRUE
              AND (u.name IN (SELECT k.name FROM unnest(known) AS k (name))) IS TRUE));
        GET DIAGNOSTICS n = ROW_COUNT;
        IF n > 0 THEN
            RAISE INFO 'leasehold: % tasks wait for their locks', n USING ERRCODE = 'LH001';
        END IF;
        IF cardinality(taken) + n < cardinality(ids) THEN
            RAISE INFO 'leasehold: locks are being passed on' USING ERRCODE = 'LH002';
        END IF;
        -- reserve_start has counted those of batches that do not start.
        INSERT INTO {schema}.batch_delta (batch_id, running)
        SELECT u.batch, -count(*) FROM unnest(ids, batches) AS u (id, batch)
        WHERE u.batch IS NOT NULL AND (u.id IN (SELECT s.id FROM unnest(taken) AS s (id))) IS NOT TRUE GROUP BY u.batch;
    END IF;
    RETURN taken;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.take_locks(bigint[], text[], bigint[]) FROM PUBLIC;

-- Lets the locks go that notes are about, so many notes at most: where the holder has ended, the first row of each class that waits for
-- the lock becomes a candidate, and an idle agent is woken. A class is what one want claims: a type, a region, to be run or to be
-- rolled back. noted is how many notes were looked at, missed that some of them stay, because another transaction has locked what they
-- are about, and next_us in how many microseconds the next note is due that is not yet. With a claim, rows that it would take first
-- start at once (start_first): they are among the promoted.
CREATE OR REPLACE FUNCTION {schema}.promote_locks(
    most bigint, ask jsonb DEFAULT NULL,
    OUT promoted bigint, OUT noted bigint, OUT missed boolean, OUT next_us bigint, OUT started bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    notes tid[];
    names text[];   -- of the locks; and then of those that are free
    mine  text[];   -- those whose row is locked here
    busy  text[];   -- those that are still held
    stay  text[] := '{}'; -- those that another transaction works on
    stuck text[];   -- those of which it has locked all rows of a class
    wanted text[];  -- those that rows wait for
    first bigint[]; -- what becomes a candidate
    owned text[];   -- the locks of these
BEGIN
    promoted := 0;
    missed := false;
    started := '{}';
    next_us := (SELECT (extract(epoch FROM min(o.until) - clock_timestamp()) * 1000000)::bigint FROM {schema}.lock_note AS o
        WHERE o.until IS NOT NULL AND o.until > clock_timestamp());
    SELECT array_agg(o.place), array_agg(DISTINCT o.name ORDER BY o.name), count(*) INTO notes, names, noted FROM (
        SELECT p.ctid AS place, p.name FROM {schema}.lock_note AS p WHERE p.until IS NULL OR p.until <= clock_timestamp()
        LIMIT most FOR UPDATE SKIP LOCKED) AS o;
    IF noted = 0 THEN -- a claim leaves to others what they are passing on
        missed := ask IS NULL AND EXISTS (SELECT FROM {schema}.lock_note AS o WHERE o.until IS NULL OR o.until <= clock_timestamp());
        RETURN;
    END IF;
    mine := ARRAY(SELECT h.name FROM {schema}.lock_holder AS h WHERE h.name = ANY (names) ORDER BY h.name FOR UPDATE SKIP LOCKED);
    IF cardinality(mine) < cardinality(names) THEN
        stay := ARRAY(SELECT h.name FROM {schema}.lock_holder AS h
            WHERE h.name = ANY (names) AND (h.name IN (SELECT m.name FROM unnest(mine) AS m (name))) IS NOT TRUE);
    END IF;
    busy := ARRAY(SELECT h.name FROM {schema}.lock_holder AS h WHERE h.name = ANY (mine) AND NOT ({lock_is_free}));
    names := ARRAY(SELECT u.name FROM unnest(names) AS u (name)
        WHERE (u.name IN (SELECT s.name FROM unnest(stay) AS s (name))) IS NOT TRUE
          AND (u.name IN (SELECT b.name FROM unnest(busy) AS b (name))) IS NOT TRUE);
    WITH RECURSIVE class AS ( -- each with its first row
        SELECT u.name, c.type, c.region, c.back, c.id FROM unnest(names) AS u (name) CROSS JOIN LATERAL (
            SELECT t.type, coalesce(t.region, '') AS region, t.state = 'rollback_pending' AS back, t.id FROM {schema}.task AS t
            WHERE t.held = 'lock' AND t.lock = u.name
            ORDER BY t.type, coalesce(t.region, ''), (t.state = 'rollback_pending'), t.priority DESC, t.run_at, t.id LIMIT 1) AS c
        UNION ALL
        SELECT k.name, c.type, c.region, c.back, c.id FROM class AS k CROSS JOIN LATERAL (
            SELECT t.type, coalesce(t.region, '') AS region, t.state = 'rollback_pending' AS back, t.id FROM {schema}.task AS t
            WHERE t.held = 'lock' AND t.lock = k.name
              AND (t.type, coalesce(t.region, ''), (t.state = 'rollback_pending')) > (k.type, k.region, k.back)
            ORDER BY t.type, coalesce(t.region, ''), (t.state = 'rollback_pending'), t.priority DESC, t.run_at, t.id LIMIT 1) AS c
    ), found AS MATERIALIZED ( -- coalesce: by primary key. Where another transaction works on the first row of a class, the next one.
        SELECT k.name, coalesce(e.id, f.id) AS id FROM class AS k LEFT JOIN LATERAL (
            SELECT t.id FROM {schema}.task AS t
            WHERE t.id = k.id AND coalesce(t.held, '') = 'lock' AND t.lock = k.name AND t.type = k.type
              AND coalesce(t.region, '') = k.region AND (t.state = 'rollback_pending') = k.back
            LIMIT 1 FOR UPDATE SKIP LOCKED) AS e ON true LEFT JOIN LATERAL (
            SELECT t.id FROM {schema}.task AS t
            WHERE e.id IS NULL AND t.held = 'lock' AND t.lock = k.name AND t.type = k.type AND coalesce(t.region, '') = k.region
              AND (t.state = 'rollback_pending') = k.back
            ORDER BY t.priority DESC, t.run_at, t.id LIMIT 1 FOR UPDATE SKIP LOCKED) AS f ON true
    )
    SELECT coalesce(array_agg(f.id) FILTER (WHERE f.id IS NOT NULL), '{}'),
        coalesce(array_agg(f.name) FILTER (WHERE f.id IS NOT NULL), '{}'),
        coalesce(array_agg(DISTINCT f.name) FILTER (WHERE f.id IS NULL), '{}'), coalesce(array_agg(DISTINCT f.name), '{}')
    INTO first, owned, stuck, wanted FROM found AS f;
    promoted := cardinality(first);
    IF ask IS NOT NULL AND promoted > 0 THEN -- of several classes it is for claims to say which one gets the lock
        started := {schema}.start_first(first, ARRAY(
            SELECT min(u.id) FROM unnest(first, owned) AS u (id, name)
            WHERE u.name IN (SELECT m.name FROM unnest(mine) AS m (name))
              AND (u.name IN (SELECT s.name FROM unnest(stuck) AS s (name))) IS NOT TRUE
            GROUP BY u.name HAVING count(*) = 1), ask);
        UPDATE {schema}.lock_holder AS h SET task_id = s.id FROM (
            SELECT u.id, u.name COLLATE "C" AS name FROM unnest(first, owned) AS u (id, name)
            WHERE u.id IN (SELECT e.id FROM unnest(started) AS e (id)) OFFSET 0) AS s
        WHERE h.name = s.name;
    END IF;
    UPDATE {schema}.task AS t SET held = NULL WHERE t.id = ANY (ARRAY(
        SELECT u.id FROM unnest(first) AS u (id) WHERE (u.id IN (SELECT s.id FROM unnest(started) AS s (id))) IS NOT TRUE));
    -- What is promoted is about to take the lock: its row stays, and is cheaper to write than another.
    names := ARRAY(SELECT m.name FROM unnest(mine) AS m (name)
        WHERE (m.name IN (SELECT b.name FROM unnest(busy || wanted) AS b (name))) IS NOT TRUE);
    IF cardinality(names) > 0 THEN
        DELETE FROM {schema}.lock_holder AS h WHERE h.name = ANY (names);
    END IF;
    DELETE FROM {schema}.lock_note AS o WHERE o.ctid = ANY (notes)
        AND (o.until IS NULL OR o.until <= clock_timestamp()) -- else the clock was set back meanwhile, and it lay ahead for what is asked above
        AND (o.name IN (SELECT s.name FROM unnest(stay || stuck) AS s (name))) IS NOT TRUE;
    missed := cardinality(stay) + cardinality(stuck) > 0;
    IF promoted > cardinality(started) AND EXISTS (SELECT FROM {schema}.agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.promote_locks(bigint, jsonb) FROM PUBLIC;
