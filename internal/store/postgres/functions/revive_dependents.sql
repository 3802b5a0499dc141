-- Revives rows that were cancelled on account of others which have been retried (revived_note): each waits again for those that it
-- names. One step of about so many rows at most. A row whose key is taken, or whose batch has ended or is being stopped, stays
-- cancelled, and its error says so. worked is how many rows and notes it has come further with; missed: others are at work on some.
--
-- A retry and a decision to cancel do not miss each other: each locks the row that was waited for, in the archive (decide_dependents).
-- Those that are revived leave notes in turn.
CREATE OR REPLACE FUNCTION {schema}.revive_dependents(most bigint, OUT revived bigint, OUT worked bigint, OUT missed boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    notes bigint[];
    note  bigint;
    s     record;
BEGIN
    revived := 0;
    worked := 0;
    missed := false;
    -- Each note may have to be looked for in the tables of many days.
    notes := ARRAY(SELECT r.number FROM {schema}.revived_note AS r ORDER BY r.number LIMIT least(most, 200) FOR UPDATE SKIP LOCKED);
    FOREACH note IN ARRAY notes LOOP
        EXIT WHEN revived >= most;
        SELECT r.revived, r.worked, r.missed INTO s FROM {schema}.revive_dependents_of(note, most - revived) AS r;
        revived := revived + s.revived;
        worked := worked + s.worked;
        missed := missed OR s.missed;
    END LOOP;
    missed := missed OR cardinality(notes) = 0 AND EXISTS (SELECT FROM {schema}.revived_note AS r);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.revive_dependents(bigint) FROM PUBLIC;

-- Does so for one note, which the caller has locked.
CREATE OR REPLACE FUNCTION {schema}.revive_dependents_of(
    note bigint, most bigint, OUT revived bigint, OUT worked bigint, OUT missed boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    o       {schema}.revived_note;
    ids     bigint[];
    fences  bigint[];
    types   text[];
    keys    text[];
    batches bigint[];
    locked  bigint[]; -- batches: while they are, they neither end nor stop
    good    bigint[];
    barred  bigint[];
    reasons text[];
    stuck   bigint;   -- the first that another has locked, or the batch of which
    upto    bigint;
BEGIN
    SELECT r.* INTO o FROM {schema}.revived_note AS r WHERE r.number = note;
    SELECT array_agg(c.id), array_agg(c.fence), array_agg(c.type), array_agg(c.key), array_agg(c.batch_id)
    INTO ids, fences, types, keys, batches FROM (
        SELECT a.id, a.fence, a.type, a.key, a.batch_id FROM {schema}.task_archive AS a
        WHERE a.cancelled_for = o.id AND a.id > o.place ORDER BY a.id LIMIT most) AS c;
    revived := 0;
    IF ids IS NOT NULL THEN
        locked := ARRAY(SELECT b.id FROM {schema}.batch AS b WHERE b.id = ANY (batches) ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED);
        SELECT array_agg(c.id) FILTER (WHERE c.free AND c.why IS NULL), array_agg(c.fence) FILTER (WHERE c.free AND c.why IS NULL),
            array_agg(c.id) FILTER (WHERE c.free AND c.why IS NOT NULL), array_agg(c.why) FILTER (WHERE c.free AND c.why IS NOT NULL),
            min(c.id) FILTER (WHERE NOT c.free)
        INTO good, fences, barred, reasons, stuck FROM (
            SELECT u.id, u.fence, {revival_barred of=u.} AS why,
                u.batch_id IS NULL OR u.batch_id = ANY (locked)
                    OR (SELECT b.id FROM {schema}.batch AS b WHERE b.id = u.batch_id LIMIT 1) IS NULL AS free
            FROM unnest(ids, fences, types, keys, batches) AS u (id, fence, type, key, batch_id)) AS c;
        IF good IS NOT NULL THEN
            SELECT r.changed INTO revived FROM {schema}.step_revive(good, fences, array_fill(NULL::timestamptz, ARRAY[cardinality(good)]),
                'retry') AS r;
        END IF;
        IF revived < cardinality(good) THEN -- the key of one was taken meanwhile, or it is locked
            SELECT barred || array_agg(c.id) FILTER (WHERE c.why IS NOT NULL), reasons || array_agg(c.why) FILTER (WHERE c.why IS NOT NULL),
                least(stuck, min(c.id) FILTER (WHERE c.why IS NULL))
            INTO barred, reasons, stuck FROM (
                SELECT a.id, {revival_barred of=a.} AS why FROM {schema}.task_archive AS a
                WHERE a.cancelled_for = o.id AND a.id = ANY (good)) AS c;
        END IF;
        WITH mine AS MATERIALIZED (
            SELECT a.id FROM {schema}.task_archive AS a WHERE a.cancelled_for = o.id AND a.id = ANY (barred) FOR UPDATE SKIP LOCKED
        )
        UPDATE {schema}.task_archive AS a SET error = split_part(a.error, '{not_revived}', 1) || '{not_revived}' || b.why
        FROM unnest(barred, reasons) AS b (id, why)
        WHERE a.cancelled_for = o.id AND a.id = b.id AND a.id = ANY (ARRAY(SELECT m.id FROM mine AS m));
    END IF;
    missed := stuck IS NOT NULL;
    IF stuck IS NULL AND coalesce(cardinality(ids), 0) < most THEN
        DELETE FROM {schema}.revived_note AS r WHERE r.number = note;
        -- A fold has to look at the batch, which may be done.
        INSERT INTO {schema}.batch_delta (batch_id) SELECT o.batch_id WHERE o.batch_id IS NOT NULL;
        worked := revived + 1;
        RETURN;
    END IF;
    upto := coalesce(stuck - 1, ids[cardinality(ids)]);
    UPDATE {schema}.revived_note AS r SET place = upto WHERE r.number = note AND r.place < upto;
    worked := revived + CASE WHEN FOUND THEN 1 ELSE 0 END;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.revive_dependents_of(bigint, bigint) FROM PUBLIC;
