-- Operations are carried out in steps of at most a thousand rows, which internal/batch decides on. The order of locks is: the
-- batch, its operation, the tasks; where it is another, nothing is waited for.

-- Applies a step where the operation has the version that was seen, and to rows that have the fence that was seen, in the
-- state that the list is for; locked rows are left out. was_missed to was_refused is how far the operation is then; missed
-- and refused rise by what is met here. stops: the operation is marked as stopped if nothing of the batch waits or runs
-- then, and no open transaction inserts into it. ends: the operation ends if all was applied or refused and, where it
-- stops, that holds. applied is false where another agent carries the operation on.
CREATE OR REPLACE FUNCTION {schema}.apply_step(
    operation bigint, seen_version bigint, was_missed boolean, was_at timestamptz, was_id bigint, was_goal bigint,
    was_taken bigint, was_refused bigint, who text, ask bigint[], ask_fences bigint[], cancels bigint[],
    cancel_fences bigint[], cancel_rolls_back boolean[], revives bigint[], revive_fences bigint[],
    revive_dues timestamptz[], reopens boolean, stops boolean, ends boolean, OUT applied boolean, OUT changed bigint,
    OUT refused bigint, OUT missed boolean, OUT stopped boolean, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    o {schema}.operation;
    s record;
BEGIN
    applied := false;
    SELECT r.* INTO o FROM {schema}.operation AS r
    WHERE r.id = apply_step.operation AND r.version = seen_version AND r.ended_at IS NULL FOR UPDATE SKIP LOCKED;
    IF o.id IS NULL THEN
        RETURN;
    END IF;
    IF reopens AND o.batch_id IS NOT NULL THEN
        PERFORM FROM {schema}.batch AS b WHERE b.id = o.batch_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    applied := true;
    changed := 0;
    refused := 0;
    missed := false;
    IF cardinality(ask) > 0 THEN
        changed := changed + {schema}.request_cancels(ask, ask_fences, who);
    END IF;
    IF cardinality(cancels) > 0 THEN
        changed := changed + {schema}.cancel_all_waiting(cancels, cancel_fences, cancel_rolls_back, who);
    END IF;
    IF cardinality(revives) > 0 THEN
        SELECT * INTO s FROM {schema}.step_revive(revives, revive_fences, revive_dues, o.verb);
        changed := changed + s.changed;
        refused := s.refused;
        missed := s.missed;
        IF reopens AND s.changed > 0 THEN
            PERFORM {schema}.reopen_batch(o.batch_id);
        END IF;
    END IF;
    stopped := o.stopped OR stops AND {schema}.has_stopped(o.batch_id);
    over := ends AND (stopped OR NOT stops)
        AND changed + refused = cardinality(ask) + cardinality(cancels) + cardinality(revives);
    UPDATE {schema}.operation AS r SET
        version = r.version + 1, stopped = apply_step.stopped, missed = was_missed OR apply_step.missed,
        after_at = was_at, after_id = was_id, goal = was_goal, taken = was_taken, done = r.done + changed,
        refused = was_refused + apply_step.refused, ended_at = CASE WHEN over THEN clock_timestamp() END
    WHERE r.id = o.id;
    -- A fold has to look at the batch, whose row may be locked by a transaction that waits for the operation.
    IF over AND o.batch_id IS NOT NULL THEN
        INSERT INTO {schema}.batch_delta (batch_id) VALUES (o.batch_id);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.apply_step(bigint, bigint, boolean, timestamptz, bigint, bigint, bigint, bigint, text,
    bigint[], bigint[], bigint[], bigint[], boolean[], bigint[], bigint[], timestamptz[], boolean, boolean, boolean)
    FROM PUBLIC;

-- Reports whether nothing of a batch runs or waits to run, and no open transaction inserts into it.
CREATE OR REPLACE FUNCTION {schema}.has_stopped(batch bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    IF NOT (SELECT v.live = v.rolling_back FROM {schema}.batches AS v WHERE v.id = batch) THEN
        RETURN false;
    END IF;
    -- A transaction that has inserted a row and not committed holds the batch FOR KEY SHARE. What has committed by now,
    -- the next statement sees.
    PERFORM FROM {schema}.batch AS b WHERE b.id = batch FOR UPDATE SKIP LOCKED;
    RETURN FOUND AND (SELECT v.live = v.rolling_back FROM {schema}.batches AS v WHERE v.id = batch);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.has_stopped(bigint) FROM PUBLIC;

-- Asks running rows to stop, and returns how many did not know of it.
CREATE OR REPLACE FUNCTION {schema}.request_cancels(ids bigint[], fences bigint[], who text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    n bigint;
BEGIN
    WITH hit AS MATERIALIZED (
        SELECT t.id FROM unnest(ids, fences) AS g (id, fence)
        CROSS JOIN LATERAL (
            SELECT r.id FROM {schema}.task AS r
            WHERE r.id = g.id AND r.fence = g.fence AND r.state = 'running' AND r.cancel_requested_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS t
    )
    UPDATE {schema}.task AS t SET cancel_requested_at = clock_timestamp(), cancel_requested_by = who
    WHERE t.id = ANY (ARRAY(SELECT hit.id FROM hit));
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM pg_notify({channel_literal}, 'asked');
    END IF;
    RETURN n;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.request_cancels(bigint[], bigint[], text) FROM PUBLIC;
