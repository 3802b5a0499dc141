-- Rows that wait for others (after). Such a row is held back from the transaction that inserts it on, and has a row in dependent.
-- Agents do the rest (unblock), each step a short transaction: they look at the rows that it names, put down in dependency which of
-- them are live, and mark these (awaited). The end of a marked row leaves a note, on which agents take its rows out of dependency.
-- When a row has none left, they read the states of all that it names, and free it or cancel it.
--
-- So an INSERT locks no row of others and writes none, and a row that ends pays only if it is marked. Nothing is lost in between: a
-- look that has put something down is followed by another, in a transaction that sees the marks and what was put down, as does
-- every end of a row that is live by then. Each step locks the row of dependent first, skipping what others have locked, and looks in a
-- later statement; only then it changes dependency, so each row of that is counted down once. The count may therefore be trusted, but
-- nothing depends on what was read before the last end: what is live again then is waited for anew.

-- Has rows wait that were just inserted. It raises where one names what it cannot wait for: a row can only wait for rows with a
-- lower id, which were there before it, so there are no cycles.
CREATE OR REPLACE FUNCTION {schema}.begin_waiting(ids bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    bad     record;
    refusal text;
    recent  timestamptz := clock_timestamp() - interval '2 days'; -- the tables of other days are read for what is not found in these
BEGIN
    SELECT t.id, cardinality(t.after) AS n INTO bad FROM {schema}.task AS t
    WHERE t.id = ANY (ids)
      AND (cardinality(t.after) > 100000 OR array_ndims(t.after) > 1 OR array_position(t.after, NULL) IS NOT NULL)
    LIMIT 1;
    IF bad.n > 100000 THEN
        refusal := format('after must have 100000 ids at most, not %s: put a task between that waits for a part of them', bad.n);
    ELSIF FOUND THEN
        refusal := 'after must be a list of ids without NULL';
    ELSE
        -- first is the first row that names the other.
        SELECT n.id, n.first, n.id >= n.first AS later INTO bad FROM (
            SELECT u.id, min(t.id) AS first FROM {schema}.task AS t CROSS JOIN LATERAL unnest(t.after) AS u (id)
            WHERE t.id = ANY (ids) GROUP BY u.id) AS n
        WHERE n.id >= n.first
           OR (SELECT t.id FROM {schema}.task AS t WHERE t.id = n.id LIMIT 1) IS NULL
              AND (SELECT a.id FROM {schema}.task_archive AS a WHERE a.id = n.id AND a.finished_at >= recent LIMIT 1) IS NULL
              AND (SELECT f.id FROM {schema}.follow AS f WHERE f.id = n.id LIMIT 1) IS NULL
              AND (SELECT a.id FROM {schema}.task_archive AS a WHERE a.id = n.id AND a.finished_at < recent LIMIT 1) IS NULL
        LIMIT 1;
        IF FOUND THEN
            refusal := CASE WHEN bad.later
                THEN format('after names task %s, and a task waits only for tasks that were inserted before it', bad.id)
                ELSE format('after names task %s, and there is no such task: insert it first, in this transaction or one that has '
                    'committed', bad.id) END;
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = refusal;
    END IF;
    UPDATE {schema}.task AS t SET held = 'after' WHERE t.id = ANY (ids);
    INSERT INTO {schema}.dependent (task_id, total)
    SELECT t.id, cardinality(t.after) FROM {schema}.task AS t WHERE t.id = ANY (ids);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.begin_waiting(bigint[]) FROM PUBLIC;

-- Marks live rows and followers, so that their end leaves a note. Those that another transaction has locked stay without a mark.
CREATE OR REPLACE FUNCTION {schema}.await(ids bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
BEGIN
    WITH mine AS MATERIALIZED (
        SELECT t.id FROM {schema}.task AS t WHERE t.id = ANY (ids) AND t.awaited IS NULL ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE {schema}.task AS t SET awaited = true WHERE t.id = ANY (ARRAY(SELECT m.id FROM mine AS m));
    IF EXISTS (SELECT FROM {schema}.follow AS f WHERE f.id = ANY (ids) AND f.awaited IS NULL) THEN
        -- Who writes a follower keeps the row before it from ending: see follow.
        WITH mine AS MATERIALIZED (
            SELECT f.id FROM {schema}.follow AS f
            CROSS JOIN LATERAL (SELECT FROM {schema}.task AS t WHERE t.type = f.type AND t.key = f.key FOR KEY SHARE SKIP LOCKED) AS l
            WHERE f.id = ANY (ids) FOR NO KEY UPDATE OF f SKIP LOCKED -- an application's transaction may be changing it
        )
        UPDATE {schema}.follow AS f SET awaited = true WHERE f.id = ANY (ARRAY(SELECT m.id FROM mine AS m));
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.await(bigint[]) FROM PUBLIC;

-- One step of all the work on rows that wait, of about so many ids and notes of each kind at most. worked is how many rows and notes it
-- has come further with: 0, if there is nothing to do, or only what others are at work on (missed). Rows are revived before any other is
-- decided about: it may wait for one of them.
CREATE OR REPLACE FUNCTION {schema}.unblock(
    most bigint, OUT freed bigint, OUT cancelled bigint, OUT revived bigint, OUT worked bigint, OUT missed boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    revivals  record;
    ends      record;
    looks     record;
    decisions record;
BEGIN
    SELECT r.revived, r.worked, r.missed INTO revivals FROM {schema}.revive_dependents(most) AS r;
    freed := 0;
    cancelled := 0;
    revived := revivals.revived;
    worked := revivals.worked;
    missed := revivals.missed;
    IF worked > 0 THEN
        RETURN;
    END IF;
    SELECT r.worked, r.missed INTO ends FROM {schema}.count_ends(most) AS r;
    SELECT r.worked, r.missed INTO looks FROM {schema}.look_at_predecessors(most) AS r;
    SELECT r.freed, r.cancelled, r.worked, r.missed INTO decisions FROM {schema}.decide_dependents(most) AS r;
    freed := decisions.freed;
    cancelled := decisions.cancelled;
    worked := ends.worked + looks.worked + decisions.worked;
    missed := missed OR ends.missed OR looks.missed OR decisions.missed;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.unblock(bigint) FROM PUBLIC;

-- Takes rows out of dependency that wait for what has ended. A row that is live again by now is marked, and waited for as before.
CREATE OR REPLACE FUNCTION {schema}.count_ends(most bigint, OUT worked bigint, OUT missed boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    notes   tid[];
    ended   bigint[];
    live    bigint[];
    stay    bigint[]; -- live, and without a mark: another transaction has locked it
    ons     bigint[];
    waiting bigint[];
    mine    bigint[];
    n       bigint;
BEGIN
    worked := 0;
    missed := false;
    SELECT array_agg(o.place), array_agg(DISTINCT o.id), count(*) INTO notes, ended, n FROM (
        SELECT e.ctid AS place, e.id FROM {schema}.ended_note AS e LIMIT most FOR UPDATE SKIP LOCKED) AS o;
    IF n = 0 THEN
        RETURN;
    END IF;
    PERFORM {schema}.await(ended);
    SELECT coalesce(array_agg(t.id) FILTER (WHERE t.awaited), '{}'), coalesce(array_agg(t.id) FILTER (WHERE t.awaited IS NULL), '{}')
    INTO live, stay FROM {schema}.task AS t WHERE t.id = ANY (ended);
    SELECT array_agg(p.on_id), array_agg(p.task_id) INTO ons, waiting FROM (
        SELECT d.on_id, d.task_id FROM unnest(ended) AS e (id)
        CROSS JOIN LATERAL (SELECT r.on_id, r.task_id FROM {schema}.dependency AS r WHERE r.on_id = e.id ORDER BY r.task_id LIMIT most) AS d
        WHERE (e.id IN (SELECT unnest(live || stay))) IS NOT TRUE LIMIT most) AS p;
    mine := ARRAY(SELECT d.task_id FROM {schema}.dependent AS d WHERE d.task_id = ANY (waiting)
        ORDER BY d.task_id FOR UPDATE SKIP LOCKED);
    WITH over AS (
        DELETE FROM {schema}.dependency AS d USING unnest(ons, waiting) AS p (on_id, task_id)
        WHERE d.on_id = p.on_id AND d.task_id = p.task_id AND (p.task_id IN (SELECT unnest(mine))) IS TRUE
        RETURNING d.task_id
    ), counted AS (
        SELECT o.task_id, count(*) AS n FROM over AS o GROUP BY o.task_id
    ), fewer AS (
        UPDATE {schema}.dependent AS d SET unfinished = d.unfinished - c.n,
            stage = CASE WHEN d.stage = 'wait' AND d.unfinished = c.n THEN 'decide' ELSE d.stage END
        FROM counted AS c WHERE d.task_id = c.task_id
    )
    SELECT count(*) INTO n FROM over;
    worked := n;
    missed := cardinality(stay) > 0 OR n < coalesce(cardinality(ons), 0);
    DELETE FROM {schema}.ended_note AS e WHERE e.ctid = ANY (notes) AND (e.id IN (SELECT unnest(stay))) IS NOT TRUE
        AND ((e.id IN (SELECT unnest(live))) IS TRUE
            OR (SELECT d.on_id FROM {schema}.dependency AS d WHERE d.on_id = e.id LIMIT 1) IS NULL);
    GET DIAGNOSTICS n = ROW_COUNT;
    worked := worked + n;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.count_ends(bigint) FROM PUBLIC;

-- Puts down which rows are live that others name, and takes out which are no more. It takes as many ids of one row as there are, most of
-- them at a time, and further rows while there is room.
CREATE OR REPLACE FUNCTION {schema}.look_at_predecessors(most bigint, OUT worked bigint, OUT missed boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    mine  bigint[];
    tasks bigint[]; -- with ids: which row names which
    ids   bigint[];
    live  bigint[]; -- and marked
    stuck bigint[]; -- rows that name one which is live, and without a mark
BEGIN
    worked := 0;
    missed := false;
    mine := ARRAY(
        SELECT s.task_id FROM (
            SELECT d.task_id, sum(least(d.total - d.place, most)) OVER (ORDER BY d.task_id) - least(d.total - d.place, most) AS before
            FROM (SELECT e.task_id, e.total, e.place FROM {schema}.dependent AS e WHERE e.stage = 'look'
                ORDER BY e.task_id LIMIT most FOR UPDATE SKIP LOCKED) AS d) AS s
        WHERE s.before < most);
    IF cardinality(mine) = 0 THEN
        RETURN;
    END IF;
    SELECT coalesce(array_agg(n.task_id), '{}'), coalesce(array_agg(n.id), '{}') INTO tasks, ids FROM (
        SELECT DISTINCT d.task_id, u.id FROM {schema}.dependent AS d
        CROSS JOIN LATERAL (SELECT t.after FROM {schema}.task AS t WHERE t.id = d.task_id AND t.held = 'after' LIMIT 1) AS t
        CROSS JOIN LATERAL unnest(t.after[d.place + 1 : d.place + most]) AS u (id)
        WHERE d.task_id = ANY (mine)) AS n;
    PERFORM {schema}.await(ARRAY(SELECT DISTINCT unnest(ids)));
    SELECT coalesce(array_agg(r.id) FILTER (WHERE r.awaited), '{}'), coalesce(array_agg(r.id) FILTER (WHERE r.awaited IS NULL), '{}')
    INTO live, stuck FROM (
        SELECT t.id, t.awaited FROM {schema}.task AS t WHERE t.id = ANY (ids)
        UNION ALL SELECT f.id, f.awaited FROM {schema}.follow AS f WHERE f.id = ANY (ids)) AS r;
    stuck := ARRAY(SELECT DISTINCT p.task_id FROM unnest(tasks, ids) AS p (task_id, id) WHERE (p.id IN (SELECT unnest(stuck))) IS TRUE);
    missed := cardinality(stuck) > 0;
    WITH pair AS (
        SELECT p.task_id, p.id, (p.id IN (SELECT unnest(live))) IS TRUE AS live FROM unnest(tasks, ids) AS p (task_id, id)
        WHERE (p.task_id IN (SELECT unnest(stuck))) IS NOT TRUE
    ), added AS (
        INSERT INTO {schema}.dependency AS d (on_id, task_id) SELECT p.id, p.task_id FROM pair AS p WHERE p.live
        ON CONFLICT (on_id, task_id) DO NOTHING RETURNING d.task_id
    ), over AS (
        DELETE FROM {schema}.dependency AS d USING pair AS p WHERE NOT p.live AND d.on_id = p.id AND d.task_id = p.task_id
        RETURNING d.task_id
    ), counted AS (
        SELECT c.task_id, sum(c.added)::integer AS added, sum(c.over)::integer AS over FROM (
            SELECT a.task_id, 1 AS added, 0 AS over FROM added AS a
            UNION ALL SELECT o.task_id, 0, 1 FROM over AS o
            UNION ALL SELECT m.task_id, 0, 0 FROM unnest(mine) AS m (task_id)) AS c
        GROUP BY c.task_id
    )
    UPDATE {schema}.dependent AS d SET
        unfinished = d.unfinished + c.added - c.over,
        place = CASE WHEN d.place + most < d.total THEN d.place + most ELSE 0 END,
        dirty = (d.dirty OR c.added > 0) AND d.place + most < d.total,
        stage = CASE WHEN d.place + most < d.total OR d.dirty OR c.added > 0 THEN 'look'
            WHEN d.unfinished - c.over > 0 THEN 'wait' ELSE 'decide' END
    FROM counted AS c WHERE d.task_id = c.task_id AND (d.task_id IN (SELECT unnest(stuck))) IS NOT TRUE;
    GET DIAGNOSTICS worked = ROW_COUNT;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.look_at_predecessors(bigint) FROM PUBLIC;

-- Frees rows that wait for no live row any more, or cancels those that name one which did not succeed, unless after_if is 'any'. What is
-- live again is waited for anew. A row is due no earlier than anything of those before it can be at work. One that has gone is forgotten.
CREATE OR REPLACE FUNCTION {schema}.decide_dependents(
    most bigint, OUT freed bigint, OUT cancelled bigint, OUT worked bigint, OUT missed boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    began   timestamptz := clock_timestamp();
    mine    bigint[];
    locked  bigint[];
    ready   bigint[];
    due     timestamptz[];
    again   bigint[]; -- a row that it names is live
    barred  bigint[];
    because bigint[];
    ended   timestamptz[]; -- when those because of which rows are barred have finished; NULL for one that has gone
    fixed   bigint[];
    states  text[];
    gone    bigint[];
    why     text[];
    recent  timestamptz := began - interval '2 days'; -- most have ended since: the tables of other days are read for the rest
BEGIN
    freed := 0;
    cancelled := 0;
    worked := 0;
    missed := false;
    mine := ARRAY(
        SELECT s.task_id FROM (
            SELECT d.task_id, sum(d.total) OVER (ORDER BY d.task_id) - d.total AS before
            FROM (SELECT e.task_id, e.total FROM {schema}.dependent AS e WHERE e.stage = 'decide'
                ORDER BY e.task_id LIMIT most FOR UPDATE SKIP LOCKED) AS d) AS s
        WHERE s.before < most);
    IF cardinality(mine) = 0 THEN
        RETURN;
    END IF;
    locked := ARRAY(SELECT t.id FROM {schema}.task AS t WHERE t.id = ANY (mine) AND t.held = 'after' ORDER BY t.id
        FOR NO KEY UPDATE SKIP LOCKED);
    -- Each row that is named is looked up once, in tables of other days only where it is in none of these.
    WITH named AS MATERIALIZED (
        SELECT t.id AS task_id, coalesce(t.after_if, 'succeeded') AS after_if, u.id FROM {schema}.task AS t
        CROSS JOIN LATERAL unnest(t.after) AS u (id) WHERE t.id = ANY (locked)
    ), known AS MATERIALIZED (
        SELECT n.id, a.state, a.lease_until, a.finished_at,
            (SELECT t.id FROM {schema}.task AS t WHERE t.id = n.id LIMIT 1) IS NOT NULL
            OR (SELECT f.id FROM {schema}.follow AS f WHERE f.id = n.id LIMIT 1) IS NOT NULL AS live
        FROM (SELECT DISTINCT m.id FROM named AS m) AS n
        LEFT JOIN LATERAL (SELECT r.state, r.lease_until, r.finished_at FROM {schema}.task_archive AS r
            WHERE r.id = n.id AND r.finished_at >= recent LIMIT 1) AS a ON true
    ), seen AS MATERIALIZED (
        SELECT k.id, k.live, coalesce(k.state, o.state) AS state, coalesce(k.lease_until, o.lease_until) AS lease_until,
            coalesce(k.finished_at, o.finished_at) AS finished_at
        FROM known AS k
        LEFT JOIN LATERAL (SELECT r.state, r.lease_until, r.finished_at FROM {schema}.task_archive AS r
            WHERE NOT k.live AND k.state IS NULL AND r.id = k.id AND r.finished_at < recent LIMIT 1) AS o ON true
    ), verdict AS (
        SELECT n.task_id, bool_or(s.live) AS live, max(s.lease_until) AS lease_until,
            min(s.id) FILTER (WHERE s.state IS DISTINCT FROM 'succeeded' AND n.after_if <> 'any') AS bad
        FROM named AS n JOIN seen AS s ON s.id = n.id GROUP BY n.task_id
    )
    SELECT array_agg(v.task_id) FILTER (WHERE v.live), array_agg(v.task_id) FILTER (WHERE NOT v.live AND v.bad IS NULL),
        array_agg(v.lease_until) FILTER (WHERE NOT v.live AND v.bad IS NULL),
        array_agg(v.task_id) FILTER (WHERE NOT v.live AND v.bad IS NOT NULL),
        array_agg(v.bad) FILTER (WHERE NOT v.live AND v.bad IS NOT NULL),
        array_agg(v.finished_at) FILTER (WHERE NOT v.live AND v.bad IS NOT NULL)
    INTO again, ready, due, barred, because, ended FROM (
        SELECT d.task_id, d.live, d.lease_until, d.bad, s.finished_at FROM verdict AS d LEFT JOIN seen AS s ON s.id = d.bad
        ORDER BY d.task_id) AS v;
    UPDATE {schema}.task AS t SET held = NULL, run_at = greatest(t.run_at, clock_timestamp(), r.due)
    FROM unnest(ready, due) AS r (id, due) WHERE t.id = r.id;
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF cardinality(barred) > 0 THEN
        -- Who retries a row revives what was cancelled for it, and locks it in the archive before that: so it comes after this
        -- transaction, or has locked or moved the row by now, and the row that waits is decided about later. One that has gone is not retried.
        SELECT coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.state), '{}') INTO fixed, states
        FROM (SELECT DISTINCT b.id, b.finished_at FROM unnest(because, ended) AS b (id, finished_at)) AS u
        CROSS JOIN LATERAL (
            SELECT a.id, a.state FROM {schema}.task_archive AS a
            WHERE a.id = u.id AND a.finished_at = u.finished_at AND a.state <> 'succeeded' LIMIT 1 FOR KEY SHARE SKIP LOCKED) AS l;
        gone := ARRAY(
            SELECT u.id FROM (SELECT DISTINCT b.id FROM unnest(because) AS b (id) WHERE (b.id IN (SELECT unnest(fixed))) IS NOT TRUE) AS u
            WHERE (SELECT a.id FROM {schema}.task_archive AS a WHERE a.id = u.id LIMIT 1) IS NULL
              AND (SELECT t.id FROM {schema}.task AS t WHERE t.id = u.id LIMIT 1) IS NULL);
        SELECT array_agg(b.id), array_agg(b.because), array_agg({why_cancelled of=f.id state=f.state}) INTO barred, because, why
        FROM unnest(barred, because) AS b (id, because)
        JOIN unnest(fixed || gone, states || array_fill(NULL::text, ARRAY[cardinality(gone)])) AS f (id, state) ON f.id = b.because
        -- An application's transaction that keeps the row where it is is not waited for.
        JOIN (SELECT t.id FROM {schema}.task AS t WHERE t.id = ANY (barred) ORDER BY t.id FOR UPDATE SKIP LOCKED) AS l ON l.id = b.id;
    END IF;
    IF cardinality(barred) > 0 THEN
        PERFORM {schema}.cancel_rows(barred, array_fill(false, ARRAY[cardinality(barred)]), NULL);
        -- The server's clock may have been set back since this call began: the bound only keeps the tables of other days out.
        UPDATE {schema}.task_archive AS a SET error = b.why, cancelled_for = b.because
        FROM unnest(barred, because, why) AS b (id, because, why)
        WHERE a.id = b.id AND a.finished_at >= least(began, clock_timestamp()) - interval '1 hour';
        GET DIAGNOSTICS cancelled = ROW_COUNT;
    END IF;
    UPDATE {schema}.dependent AS d SET stage = 'look', place = 0, dirty = false WHERE d.task_id = ANY (again);
    -- What is left and not held any more has ended, or was freed.
    DELETE FROM {schema}.dependent AS d WHERE d.task_id = ANY (mine)
        AND (SELECT t.id FROM {schema}.task AS t WHERE t.id = d.task_id AND t.held = 'after' LIMIT 1) IS NULL;
    GET DIAGNOSTICS worked = ROW_COUNT;
    worked := worked + coalesce(cardinality(again), 0);
    missed := worked < cardinality(mine);
    IF freed > 0 AND EXISTS (SELECT FROM {schema}.agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.decide_dependents(bigint) FROM PUBLIC;
