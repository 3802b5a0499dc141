-- Changes of all tasks that match a filter. They are carried out in steps that internal/batch decides on. The cursor moves in the transaction
-- that changes the rows, and only from the version that was seen: so a step that is repeated, or whose reply was lost, changes nothing twice.
-- Rows, batches and followers that another transaction has locked are skipped, and never waited for.

-- Starts a bulk change, and returns its id. batch bounds the ids that it looks at, where the filter names a batch.
CREATE OR REPLACE FUNCTION {schema}.start_bulk(with_verb text, with_filter jsonb, batch bigint, by text, why text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who   text := {schema}.requester(by);
    low   bigint;
    high  bigint;
    found bigint;
BEGIN
    IF octet_length(why) > 512 THEN
        RAISE EXCEPTION 'reason must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF batch IS NULL THEN
        low := 0;
        high := greatest((SELECT max(t.id) FROM {schema}.task AS t), (SELECT max(f.id) FROM {schema}.follow AS f),
            (SELECT max(a.id) FROM {schema}.task_archive AS a), 0);
    ELSE
        SELECT coalesce(min(t.id) - 1, 0), coalesce(max(t.id), 0) INTO low, high FROM {schema}.tasks AS t WHERE t.batch_id = batch;
    END IF;
    INSERT INTO {schema}.bulk_change (verb, filter, requested_by, reason, from_id, after_id, up_to)
    VALUES (with_verb, with_filter, who, nullif(why, ''), low, low, high) RETURNING id INTO found;
    INSERT INTO {schema}.audit (requested_by, verb, reason, answer)
    VALUES (who, with_verb, nullif(why, ''), format('bulk change %s: %s', found, left(with_filter::text, 1000)));
    PERFORM pg_notify({channel_literal}, 'asked');
    RETURN found;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.start_bulk(text, jsonb, bigint, text, text) FROM PUBLIC;

-- Stops a bulk change: what it has changed stays so. It waits for a step that is being applied.
CREATE OR REPLACE FUNCTION {schema}.stop_bulk(bulk bigint, by text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    of  text;
BEGIN
    UPDATE {schema}.bulk_change AS c SET stopped = true, ended_at = clock_timestamp(), version = c.version + 1
    WHERE c.id = bulk AND c.ended_at IS NULL RETURNING c.verb INTO of;
    IF FOUND THEN
        INSERT INTO {schema}.audit (requested_by, verb, answer) VALUES (who, of, format('bulk change %s stopped', bulk));
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.stop_bulk(bigint, text) FROM PUBLIC;

-- Applies a step where the change has the version that was seen, and to rows that have the fence that was seen, in the state that the list is
-- for. was_id, was_again and unable are how far the change is then; what is met here that is locked, or has changed, is to be looked at again.
-- passed: the change ends where there is nothing such, or patience (microseconds) is over. applied is false where another agent carries it on.
CREATE OR REPLACE FUNCTION {schema}.apply_bulk(
    bulk bigint, seen_version bigint, was_id bigint, was_again bigint[], was_looked bigint, unable bigint, passed boolean, patience bigint,
    most_again integer, followers bigint[], cancels bigint[], cancel_fences bigint[], cancel_rolls_back boolean[], asks bigint[],
    ask_fences bigint[], revives bigint[], revive_fences bigint[], revive_batches bigint[],
    OUT applied boolean, OUT changed bigint, OUT refused bigint, OUT missed bigint[], OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    o       {schema}.bulk_change;
    s       record;
    stay    bigint[];
    until   timestamptz;
BEGIN
    IF cardinality(followers) + cardinality(cancels) > 0 THEN
        PERFORM {schema}.ensure_partition(clock_timestamp()); -- it may wait, and no row is locked yet
    END IF;
    applied := false;
    SELECT r.* INTO o FROM {schema}.bulk_change AS r
    WHERE r.id = bulk AND r.version = seen_version AND r.ended_at IS NULL FOR UPDATE SKIP LOCKED;
    IF o.id IS NULL THEN
        RETURN;
    END IF;
    applied := true;
    changed := 0;
    refused := 0;
    missed := '{}';
    IF cardinality(followers) > 0 THEN
        SELECT * INTO s FROM {schema}.bulk_cancel_followers(o, followers);
        changed := changed + s.changed;
        missed := missed || s.missed;
    END IF;
    IF cardinality(cancels) > 0 THEN
        SELECT * INTO s FROM {schema}.bulk_cancel(o, cancels, cancel_fences, cancel_rolls_back);
        changed := changed + s.changed;
        missed := missed || s.missed;
    END IF;
    IF cardinality(asks) > 0 THEN
        SELECT * INTO s FROM {schema}.bulk_ask(o, asks, ask_fences);
        changed := changed + s.changed;
        missed := missed || s.missed;
    END IF;
    IF cardinality(revives) > 0 THEN
        SELECT * INTO s FROM {schema}.bulk_revive(o, revives, revive_fences, revive_batches);
        changed := changed + s.changed;
        refused := s.refused;
        missed := missed || s.missed;
    END IF;
    stay := was_again || missed;
    IF passed THEN
        until := coalesce(o.again_until, clock_timestamp() + patience * interval '1 microsecond');
    END IF;
    over := passed AND (cardinality(stay) = 0 OR until <= clock_timestamp());
    UPDATE {schema}.bulk_change AS r SET
        version = r.version + 1, after_id = was_id, looked = was_looked, done = r.done + changed, refused = unable + apply_bulk.refused,
        again = CASE WHEN over THEN '{}' ELSE stay[1:most_again] END, again_until = until,
        skipped = r.skipped + CASE WHEN over THEN cardinality(stay) ELSE greatest(cardinality(stay) - most_again, 0) END,
        ended_at = CASE WHEN over THEN clock_timestamp() END
    WHERE r.id = o.id;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.apply_bulk(bigint, bigint, bigint, bigint[], bigint, bigint, boolean, bigint, integer, bigint[], bigint[],
    bigint[], boolean[], bigint[], bigint[], bigint[], bigint[], bigint[]) FROM PUBLIC;

-- Cancels followers. The row that one follows is locked first: cancel_follower then waits for nothing.
CREATE OR REPLACE FUNCTION {schema}.bulk_cancel_followers(
    o {schema}.bulk_change, ids bigint[], OUT changed bigint, OUT missed bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    one bigint;
    f   record;
BEGIN
    changed := 0;
    missed := '{}';
    FOREACH one IN ARRAY ids LOOP
        SELECT r.type, r.key INTO f FROM {schema}.follow AS r WHERE r.id = one FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            PERFORM FROM {schema}.task AS t WHERE t.type = f.type AND t.key = f.key FOR KEY SHARE SKIP LOCKED;
        END IF;
        IF FOUND AND {schema}.cancel_follower(one, o.requested_by) THEN
            changed := changed + 1;
            INSERT INTO {schema}.audit (requested_by, verb, task_id, reason, answer)
            VALUES (o.requested_by, o.verb, one, o.reason, 'cancelled');
        ELSE
            missed := missed || one;
        END IF;
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.bulk_cancel_followers({schema}.bulk_change, bigint[]) FROM PUBLIC;

-- Cancels waiting rows. One with true in its place waits for its rollback.
CREATE OR REPLACE FUNCTION {schema}.bulk_cancel(
    o {schema}.bulk_change, ids bigint[], fences bigint[], rolls_back boolean[], OUT changed bigint, OUT missed bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    hit record;
BEGIN
    SELECT coalesce(array_agg(t.id), '{}') AS ids, coalesce(array_agg(g.rolls_back), '{}') AS rolls_back INTO hit
    FROM unnest(ids, fences, rolls_back) AS g (id, fence, rolls_back)
    CROSS JOIN LATERAL (
        SELECT r.id FROM {schema}.task AS r
        WHERE r.id = g.id AND r.fence = g.fence AND r.state IN ('pending', 'retry_pending') FOR UPDATE SKIP LOCKED
    ) AS t;
    PERFORM {schema}.cancel_rows(hit.ids, hit.rolls_back, o.requested_by);
    INSERT INTO {schema}.audit (requested_by, verb, task_id, reason, answer)
    SELECT o.requested_by, o.verb, g.id, o.reason, CASE WHEN g.rolls_back THEN 'rollback_pending' ELSE 'cancelled' END
    FROM unnest(hit.ids, hit.rolls_back) AS g (id, rolls_back);
    changed := cardinality(hit.ids);
    missed := ARRAY(SELECT g.id FROM unnest(ids) AS g (id) WHERE g.id <> ALL (hit.ids));
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.bulk_cancel({schema}.bulk_change, bigint[], bigint[], boolean[]) FROM PUBLIC;

-- Asks running rows to stop. Of a rollback, an operation for each rolls it back once it has ended.
CREATE OR REPLACE FUNCTION {schema}.bulk_ask(
    o {schema}.bulk_change, ids bigint[], fences bigint[], OUT changed bigint, OUT missed bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    hit bigint[];
BEGIN
    hit := ARRAY(
        SELECT t.id FROM unnest(ids, fences) AS g (id, fence)
        CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.task AS r WHERE r.id = g.id AND r.fence = g.fence AND r.state = 'running' FOR NO KEY UPDATE SKIP LOCKED
        ) AS t);
    UPDATE {schema}.task AS t SET cancel_requested_at = clock_timestamp(), cancel_requested_by = o.requested_by
    WHERE t.id = ANY (hit) AND t.cancel_requested_at IS NULL;
    IF o.verb = 'rollback' THEN
        INSERT INTO {schema}.operation (verb, batch_id, task_id, requested_at, requested_by)
        SELECT 'rollback', t.batch_id, t.id, clock_timestamp(), o.requested_by FROM {schema}.task AS t
        WHERE t.id = ANY (hit) AND NOT EXISTS (SELECT FROM {schema}.operation AS p WHERE p.task_id = t.id AND p.ended_at IS NULL);
    END IF;
    INSERT INTO {schema}.audit (requested_by, verb, task_id, reason, answer)
    SELECT o.requested_by, o.verb, h.id, o.reason, 'cancelling' FROM unnest(hit) AS h (id);
    changed := cardinality(hit);
    missed := ARRAY(SELECT g.id FROM unnest(ids) AS g (id) WHERE g.id <> ALL (hit));
    IF changed > 0 THEN
        PERFORM pg_notify({channel_literal}, 'asked');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.bulk_ask({schema}.bulk_change, bigint[], bigint[]) FROM PUBLIC;

-- Revives finished rows, to run again or to be rolled back. Their batches, which begin a new round where they had ended, are locked. Those are
-- refused whose key another live row has, and, of a retry, those of a batch that is being cancelled or rolled back, or that are to be rolled
-- back themselves.
CREATE OR REPLACE FUNCTION {schema}.bulk_revive(
    o {schema}.bulk_change, ids bigint[], fences bigint[], batches bigint[], OUT changed bigint, OUT refused bigint, OUT missed bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    locked bigint[];
    c      record;
    s      record;
    keyed  bigint[];
BEGIN
    locked := ARRAY(SELECT b.id FROM {schema}.batch AS b WHERE b.id = ANY (batches) ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED);
    SELECT coalesce(array_agg(u.id) FILTER (WHERE u.free AND NOT u.barred), '{}') AS ids,
        coalesce(array_agg(u.fence) FILTER (WHERE u.free AND NOT u.barred), '{}') AS fences,
        coalesce(array_agg(u.id) FILTER (WHERE NOT u.free), '{}') AS busy, count(*) FILTER (WHERE u.free AND u.barred) AS barred
    INTO c
    FROM (
        SELECT g.id, g.fence,
            g.batch_id IS NULL OR g.batch_id = ANY (locked)
                OR NOT EXISTS (SELECT FROM {schema}.batch AS b WHERE b.id = g.batch_id) AS free,
            o.verb = 'retry' AND (
                EXISTS (SELECT FROM {schema}.operation AS p WHERE p.task_id = g.id AND p.ended_at IS NULL)
                OR EXISTS (SELECT FROM {schema}.batch AS b
                           WHERE b.id = g.batch_id AND b.requested IS NOT NULL AND b.ended_at IS NULL)) AS barred
        FROM unnest(ids, fences, batches) AS g (id, fence, batch_id)) AS u;
    SELECT r.revived INTO s
    FROM {schema}.step_revive(c.ids, c.fences, array_fill(NULL::timestamptz, ARRAY[cardinality(c.ids)]), o.verb) AS r;
    keyed := ARRAY(
        SELECT a.id FROM {schema}.task_archive AS a
        WHERE a.id = ANY (c.ids) AND a.id <> ALL (s.revived)
          AND EXISTS (SELECT FROM {schema}.task AS t WHERE t.type = a.type AND t.key = a.key));
    changed := cardinality(s.revived);
    refused := c.barred + cardinality(keyed);
    missed := c.busy || ARRAY(SELECT g.id FROM unnest(c.ids) AS g (id) WHERE g.id <> ALL (s.revived) AND g.id <> ALL (keyed));
    PERFORM {schema}.reopen_batch(b.id) FROM (
        SELECT DISTINCT g.batch_id AS id FROM unnest(ids, batches) AS g (id, batch_id)
        WHERE g.batch_id = ANY (locked) AND g.id = ANY (s.revived)) AS b;
    INSERT INTO {schema}.audit (requested_by, verb, task_id, reason, answer)
    SELECT o.requested_by, o.verb, r.id, o.reason, CASE o.verb WHEN 'retry' THEN 'pending' ELSE 'rollback_pending' END
    FROM unnest(s.revived) AS r (id);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.bulk_revive({schema}.bulk_change, bigint[], bigint[], bigint[]) FROM PUBLIC;
