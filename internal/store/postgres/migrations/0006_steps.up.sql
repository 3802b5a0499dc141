-- Brings back those of finished rows that it can, each due at the time in its place. Of the others, those whose key is
-- another's are refused; the rest are locked. Who inserts a row with the key of one of these, and has not committed, is
-- waited for a little while and no longer.
CREATE FUNCTION {schema}.step_back(
    ids bigint[], dues timestamptz[], verb text, OUT changed bigint, OUT refused bigint, OUT missed boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off
    SET lock_timeout = '200ms' AS
$leasehold$
DECLARE
    back bigint[];
    keyless bigint[];
BEGIN
    BEGIN
        back := ARRAY(SELECT {schema}.bring_back(ids, dues, verb));
    EXCEPTION WHEN lock_not_available THEN
        keyless := ARRAY(SELECT a.id FROM {schema}.task_archive AS a WHERE a.id = ANY (ids) AND a.key IS NULL);
        back := ARRAY(SELECT {schema}.bring_back(
            ARRAY(SELECT g.id FROM unnest(ids, dues) WITH ORDINALITY AS g (id, due, n) WHERE g.id = ANY (keyless) ORDER BY g.n),
            ARRAY(SELECT g.due FROM unnest(ids, dues) WITH ORDINALITY AS g (id, due, n) WHERE g.id = ANY (keyless) ORDER BY g.n),
            verb));
    END;
    changed := cardinality(back);
    refused := 0;
    IF changed < cardinality(ids) THEN
        SELECT count(*) INTO refused FROM {schema}.task_archive AS a
        WHERE a.id = ANY (ids) AND a.id <> ALL (back)
          AND EXISTS (SELECT FROM {schema}.task AS t WHERE t.type = a.type AND t.key = a.key);
    END IF;
    missed := changed + refused < cardinality(ids);
    IF changed > 0 THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_back(bigint[], timestamptz[], text) FROM PUBLIC;

-- Retries rows of a batch that had failed when that was asked for, by id: looks at the next so many.
CREATE FUNCTION {schema}.step_retry(
    INOUT o {schema}.operation, most bigint, OUT changed bigint, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    ids bigint[];
    s   record;
BEGIN
    ids := ARRAY(
        SELECT a.id FROM {schema}.task_archive AS a
        WHERE a.batch_id IS NOT NULL AND (a.batch_id, a.id) > (o.batch_id, coalesce(o.after_id, 0))
          AND (a.batch_id, a.id) < (o.batch_id + 1, 0) AND a.finished_at <= o.asked_at
          AND (a.state = 'failed' OR a.state = 'rolled_back' AND coalesce(a.cause, '') NOT IN ('succeeded', 'cancelled'))
        ORDER BY a.batch_id, a.id LIMIT most);
    SELECT * INTO s FROM {schema}.step_back(ids, array_fill(clock_timestamp(), ARRAY[cardinality(ids)]), 'retry');
    changed := s.changed;
    o.refused := o.refused + s.refused;
    o.missed := o.missed OR s.missed;
    o.after_id := ids[cardinality(ids)];
    over := cardinality(ids) < most AND NOT o.missed;
    IF cardinality(ids) < most AND o.missed THEN -- another pass, for what somebody has kept
        o.after_id := NULL;
        o.missed := false;
        o.refused := 0;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_retry({schema}.operation, bigint) FROM PUBLIC;

-- Rolls a batch back: first all of it stops, then what is finished is undone, started newest first: of the next so many
-- rows those that can be. They are due within the second before it was asked for, a microsecond apart, so that claims keep
-- to the order.
CREATE FUNCTION {schema}.step_rollback(
    INOUT o {schema}.operation, most bigint, OUT changed bigint, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    s      record;
    next   record;
    before bigint;
    room   bigint;
BEGIN
    changed := 0;
    IF NOT o.undoes THEN
        SELECT * INTO s FROM {schema}.step_off(o, most);
        o := s.o;
        changed := s.changed;
        over := false;
        IF NOT s.over THEN
            RETURN;
        END IF;
        o.undoes := true;
        o.after_id := NULL;
    END IF;
    room := most - changed;
    IF room <= 0 THEN
        RETURN;
    END IF;
    before := o.done + changed;
    WITH page AS (
        SELECT f.id, f.began, f.policy, f.type
        FROM (SELECT a.batch_id, a.id, a.policy, a.type,
                  CASE WHEN a.ever_started AND a.state IN ('succeeded', 'failed', 'cancelled') THEN coalesce(a.started_at, a.finished_at) END AS began
              FROM {schema}.task_archive AS a) AS f
        WHERE f.batch_id IS NOT NULL
          AND (f.batch_id, f.began, f.id)
              < (o.batch_id, coalesce(o.after_at, 'infinity'), coalesce(o.after_id, 9223372036854775807))
          AND (f.batch_id, f.began, f.id) > (o.batch_id, '-infinity', 0)
        ORDER BY f.batch_id DESC, f.began DESC, f.id DESC LIMIT room
    ), seen AS (
        SELECT p.*, row_number() OVER (ORDER BY p.began DESC, p.id DESC) AS place FROM page AS p
    ), fit AS (
        SELECT e.id, row_number() OVER (ORDER BY e.place) AS n FROM seen AS e, {schema}.undoable() AS u
        WHERE e.policy = ANY (u.hashes) OR e.type = ANY (u.types)
    )
    SELECT coalesce(array_agg(f.id ORDER BY f.n), '{}') AS ids,
        coalesce(array_agg(least(o.asked_at - interval '1 second' + (before + f.n) * interval '1 microsecond',
            clock_timestamp()) ORDER BY f.n), '{}') AS dues,
        (SELECT count(*) FROM seen) AS n,
        (SELECT e.began FROM seen AS e ORDER BY e.place DESC LIMIT 1) AS at,
        (SELECT e.id FROM seen AS e ORDER BY e.place DESC LIMIT 1) AS id
    INTO next FROM fit AS f;
    SELECT * INTO s FROM {schema}.step_back(next.ids, next.dues, 'rollback');
    changed := changed + s.changed;
    o.refused := o.refused + s.refused;
    o.missed := o.missed OR s.missed;
    o.after_at := next.at;
    o.after_id := next.id;
    over := next.n < room AND NOT o.missed;
    IF next.n < room AND o.missed THEN
        o.after_at := NULL;
        o.after_id := NULL;
        o.missed := false;
        o.refused := 0;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_rollback({schema}.operation, bigint) FROM PUBLIC;

-- Rolls back a task that ran when that was asked for, once it has ended. Whoever keeps it or its batch is not waited for.
CREATE FUNCTION {schema}.step_one(
    INOUT o {schema}.operation, OUT changed bigint, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    t {schema}.task;
    a {schema}.task_archive;
    s record;
BEGIN
    changed := 0;
    over := false;
    IF o.batch_id IS NOT NULL THEN
        PERFORM FROM {schema}.batch AS b WHERE b.id = o.batch_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = o.task_id FOR NO KEY UPDATE SKIP LOCKED;
    IF t.state IN ('pending', 'retry_pending') THEN
        PERFORM {schema}.call_off(t, o.who, {schema}.can_undo(t.type, t.policy));
        changed := 1;
    END IF;
    IF t.id IS NOT NULL THEN
        over := t.state <> 'running';
        RETURN;
    END IF;
    SELECT r.* INTO a FROM {schema}.task_archive AS r WHERE r.id = o.task_id FOR UPDATE SKIP LOCKED;
    IF a.id IS NULL THEN
        over := NOT EXISTS (SELECT FROM {schema}.tasks AS r WHERE r.id = o.task_id);
        RETURN;
    END IF;
    over := true;
    IF a.ever_started AND a.state IN ('succeeded', 'failed', 'cancelled') AND {schema}.can_undo(a.type, a.policy) THEN
        SELECT * INTO s FROM {schema}.step_back(ARRAY[a.id], ARRAY[clock_timestamp()], 'rollback');
        changed := s.changed;
        o.refused := s.refused;
        over := NOT s.missed;
        IF changed > 0 THEN
            PERFORM {schema}.reopen(a.batch_id);
        END IF;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_one({schema}.operation) FROM PUBLIC;

-- Carries on the oldest operation that nobody else carries on and that does not just wait, by at most so many rows.
CREATE FUNCTION {schema}.step(
    most bigint, OUT there_are boolean, OUT changed bigint, OUT over boolean, OUT of_verb text, OUT of_batch bigint,
    OUT of_task bigint, OUT all_done bigint, OUT all_refused bigint
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    o    {schema}.operation;
    s    record;
    last bigint := 0;
BEGIN
    there_are := EXISTS (SELECT FROM {schema}.operation AS r WHERE r.ended_at IS NULL);
    changed := 0;
    over := false;
    WHILE changed = 0 AND NOT over LOOP
        SELECT r.* INTO o FROM {schema}.operation AS r
        WHERE r.ended_at IS NULL AND r.id > last AND NOT (r.task_id IS NOT NULL AND EXISTS (
            SELECT FROM {schema}.task AS t WHERE t.id = r.task_id AND t.state = 'running'))
        ORDER BY r.id LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN o.id IS NULL;
        last := o.id;
        IF o.task_id IS NOT NULL THEN
            SELECT * INTO s FROM {schema}.step_one(o);
        ELSIF o.verb = 'retry' THEN
            SELECT * INTO s FROM {schema}.step_retry(o, most);
        ELSIF o.verb = 'cancel' THEN
            SELECT * INTO s FROM {schema}.step_off(o, most);
        ELSE
            SELECT * INTO s FROM {schema}.step_rollback(o, most);
        END IF;
        o := s.o;
        changed := s.changed;
        over := s.over;
        all_done := o.done + s.changed;
        all_refused := o.refused;
        UPDATE {schema}.operation AS r SET
            undoes = o.undoes, missed = o.missed, after_at = o.after_at, after_id = o.after_id, done = all_done,
            refused = all_refused, ended_at = CASE WHEN s.over THEN clock_timestamp() END
        WHERE r.id = o.id;
    END LOOP;
    IF over THEN
        of_verb := o.verb;
        of_batch := CASE WHEN o.task_id IS NULL THEN o.batch_id END;
        of_task := o.task_id;
        IF o.batch_id IS NOT NULL THEN -- a fold is to look at it; its row may be somebody's, who waits for the operation
            INSERT INTO {schema}.batch_delta (batch_id) VALUES (o.batch_id);
        END IF;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step(bigint) FROM PUBLIC;
