-- Returns how many rows a claim may take of each of these row types, for all types with the same limit (name) together, and where it is the
-- rate that leaves no more, in how many microseconds one may start (wait; 0: now; else NULL). Where there is no limit name is NULL, and where other
-- claims are under way for too long rooms is. It is called by claims of types with a limit, once each.
--
-- It locks the limits first, and counts what runs in later statements, each of which sees what has committed by then: the claim that
-- held the lock before, which the snapshot of the calling statement may not. The lock lasts until the calling claim has committed. Claims
-- wait for one another, in turn and for a moment only: each then takes all the room that there is by its turn. To come back for it would cost
-- more.
CREATE OR REPLACE FUNCTION {schema}.limit_rooms(kinds text[]) RETURNS TABLE (kind text, name text, rooms bigint, wait bigint)
    LANGUAGE plpgsql VOLATILE ROWS 10 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '20ms' AS
$leasehold$
DECLARE
    held   record;
    tokens double precision;
    free   bigint;
    names  text[] := '{}';
    frees  bigint[] := '{}';
    waits  bigint[] := '{}';
BEGIN
    BEGIN
        FOR held IN
            SELECT l.type, l.most, l.rate, l.burst, l.since, l.counts_all FROM {schema}.type_limit AS l
            WHERE l.type = ANY (ARRAY(SELECT k.name FROM {schema}.type_limit AS k WHERE k.type = ANY (kinds)))
            ORDER BY l.type
            FOR UPDATE
        LOOP
            free := 1000000000;
            wait := NULL;
            IF held.most > 0 THEN
                free := greatest(held.most - {schema}.limit_running(held.type, held.counts_all, held.since), 0);
            END IF;
            IF held.rate > 0 THEN
                tokens := {schema}.refill_tokens(held.type, held.rate, held.burst);
                IF least(floor(greatest(tokens, 0))::bigint, held.burst) < free THEN
                    free := least(floor(greatest(tokens, 0))::bigint, held.burst);
                    wait := CASE WHEN free = 0 THEN greatest(((1 - tokens) / held.rate * 1000000)::bigint, 1) ELSE 0 END;
                END IF;
            END IF;
            names := names || held.type;
            waits := array_append(waits, wait);
            frees := frees || free;
        END LOOP;
    EXCEPTION WHEN lock_not_available THEN
        frees := '{}';
    END;
    RETURN QUERY
        SELECT k.kind, l.name, frees[array_position(names, l.name)], waits[array_position(names, l.name)]
        FROM unnest(kinds) AS k (kind) LEFT JOIN {schema}.type_limit AS l ON l.type = k.kind;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.limit_rooms(text[]) FROM PUBLIC;

-- Returns how many places of a limit, which the caller has locked, are taken.
--
-- Of a limit that is new, rows may run that name none: they were claimed before. They are found by their type, until none is left and
-- no claim can be under way that began before the limit was there: it would have lasted longer than any statement may.
CREATE OR REPLACE FUNCTION {schema}.limit_running(limit_name text, counts_all boolean, since timestamptz) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    running bigint;
    unnamed bigint;
BEGIN
    IF counts_all THEN
        SELECT count(*), count(*) FILTER (WHERE t.limited IS DISTINCT FROM limit_name) INTO running, unnamed
        FROM {schema}.task AS t
        WHERE t.state IN ('running', 'rollback_running') AND (t.limited = limit_name OR t.type = ANY (ARRAY(
            SELECT k.type FROM {schema}.type_limit AS k WHERE k.name = limit_name)));
        IF unnamed = 0 AND since < now() - interval '1 minute' THEN
            UPDATE {schema}.type_limit AS l SET counts_all = false WHERE l.type = limit_name;
        END IF;
    ELSE
        SELECT count(*) INTO running FROM {schema}.task AS t
        WHERE t.limited IS NOT NULL AND t.limited = limit_name AND t.state IN ('running', 'rollback_running');
    END IF;
    -- Where the clock was set back, a place lasts no longer than it was to last.
    UPDATE {schema}.limit_place AS p SET until = now() + (p.until - p.kept_at), kept_at = now()
    WHERE p.name = limit_name AND p.kept_at > now() + interval '1 second';
    DELETE FROM {schema}.limit_place AS p WHERE p.name = limit_name AND p.until <= now();
    RETURN running + (SELECT count(*) FROM {schema}.limit_place AS p WHERE p.name = limit_name AND NOT EXISTS (
        SELECT FROM {schema}.task AS t
        WHERE t.id = p.task_id AND t.fence = p.fence AND t.state IN ('running', 'rollback_running')));
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.limit_running(text, boolean, timestamptz) FROM PUBLIC;

-- Counts the tokens of a limit, which the caller has locked: what its rate has brought since they were counted last, and what was given
-- back. The rule is that of store.Bucket.
CREATE OR REPLACE FUNCTION {schema}.refill_tokens(limit_name text, rate double precision, burst integer) RETURNS double precision
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    back   bigint;
    filled double precision;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.limit_token AS n WHERE n.name = limit_name AND NOT EXISTS (
            SELECT FROM {schema}.task AS t
            WHERE t.id = n.task_id AND t.fence = n.fence AND t.state IN ('running', 'rollback_running'))
        RETURNING n.task_id
    )
    SELECT count(*) INTO back FROM gone;
    UPDATE {schema}.limit_bucket AS b SET counted_at = clock_timestamp(), tokens = least(
        b.tokens + greatest(extract(epoch FROM clock_timestamp() - b.counted_at), 0)::double precision * rate + back,
        burst + rate * 0.025)
    WHERE b.name = limit_name RETURNING b.tokens INTO filled;
    IF NOT FOUND THEN
        INSERT INTO {schema}.limit_bucket AS b (name, tokens) VALUES (limit_name, burst) RETURNING b.tokens INTO filled;
    END IF;
    RETURN filled;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.refill_tokens(text, double precision, integer) FROM PUBLIC;

-- Takes tokens for rows that a claim starts; it has locked the limit. Where there is no rate it does nothing.
CREATE OR REPLACE FUNCTION {schema}.spend_tokens(limit_name text, n bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE {schema}.limit_bucket AS b SET tokens = b.tokens - n
    WHERE b.name = limit_name AND EXISTS (SELECT FROM {schema}.type_limit AS l WHERE l.type = limit_name AND l.rate > 0);
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.spend_tokens(text, bigint) FROM PUBLIC;
