-- Returns how many rows a claim may take of each of these row types, for all types with the same limit (name) together, and where it is the
-- rate that leaves no more, in how many microseconds one may start (wait; 0: now; else NULL). Where there is no limit name is NULL, and where other
-- claims are under way for too long rooms is. It is called once by each claim of types with a limit, as a statement of its own:
-- the claim (claim_limited.sql) follows in the same transaction and finds the rooms in the setting leasehold.rooms.
--
-- It locks the limits first, and counts what runs in later statements, each of which sees what has committed by then: the claim that
-- held the lock before, which the snapshot of the calling statement may not. The claim that follows sees that, too. The lock lasts until the calling claim has committed. Claims
-- wait for one another, in turn and for a moment only: each then takes all the room that there is by its turn. To come back for it would cost
-- more.
CREATE OR REPLACE FUNCTION {schema}.limit_rooms(kinds text[]) RETURNS TABLE (kind text, name text, rooms bigint, wait bigint)
    LANGUAGE plpgsql VOLATILE ROWS 10 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '20ms' AS
$leasehold$
DECLARE
    held    record;
    found   jsonb;
    running bigint;
    tokens double precision;
    free   bigint;
    names  text[] := '{}';
    frees  bigint[] := '{}';
    waits  bigint[] := '{}';
BEGIN
    BEGIN
        FOR held IN
            SELECT l.type, l.most, l.rate, l.burst, l.since, l.counts_all, l.crowded FROM {schema}.type_limit AS l
            WHERE l.type = ANY (ARRAY(SELECT k.name FROM {schema}.type_limit AS k WHERE k.type = ANY (kinds)))
            ORDER BY l.type
            FOR UPDATE
        LOOP
            free := 1000000000;
            wait := NULL;
            IF held.most > 0 THEN
                IF held.counts_all THEN
                    running := {schema}.limit_unnamed(held.type, held.since);
                ELSE
                    SELECT count(*) INTO running FROM {schema}.task AS t
                    WHERE t.limited IS NOT NULL AND t.limited = held.type AND t.state IN ('running', 'rollback_running');
                END IF;
                IF EXISTS (SELECT FROM {schema}.limit_place AS p WHERE p.name = held.type) THEN
                    running := running + {schema}.kept_places(held.type);
                END IF;
                IF held.crowded <> (running > held.most) THEN
                    UPDATE {schema}.type_limit AS l SET crowded = running > held.most WHERE l.type = held.type;
                END IF;
                free := greatest(held.most - running, 0);
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
    SELECT coalesce(jsonb_agg(jsonb_build_object('kind', k.kind, 'name', l.name, 'rooms', frees[array_position(names, l.name)],
        'wait', waits[array_position(names, l.name)], 'rated', l.rate > 0)), '[]') INTO found
    FROM unnest(kinds) AS k (kind) LEFT JOIN {schema}.type_limit AS l ON l.type = k.kind;
    PERFORM set_config('leasehold.rooms', found::text, true);
    RETURN QUERY SELECT r.kind, r.name, r.rooms, r.wait
        FROM jsonb_to_recordset(found) AS r (kind text, name text, rooms bigint, wait bigint);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.limit_rooms(text[]) FROM PUBLIC;

-- Returns how many rows run of a limit that is new, which the caller has locked. Rows may run that name no limit: they were claimed before.
-- They are found by their type, until none is left and no claim can be under way that began before the limit was there: it would have
-- lasted longer than any statement may.
CREATE OR REPLACE FUNCTION {schema}.limit_unnamed(limit_name text, since timestamptz) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    running bigint;
    unnamed bigint;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE t.limited IS DISTINCT FROM limit_name) INTO running, unnamed
    FROM {schema}.task AS t
    WHERE t.state IN ('running', 'rollback_running') AND (t.limited = limit_name OR t.type = ANY (ARRAY(
        SELECT k.type FROM {schema}.type_limit AS k WHERE k.name = limit_name)));
    IF unnamed = 0 AND since < now() - interval '1 minute' THEN
        UPDATE {schema}.type_limit AS l SET counts_all = false WHERE l.type = limit_name;
    END IF;
    RETURN running;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.limit_unnamed(text, timestamptz) FROM PUBLIC;

-- Returns how many places of a limit, which the caller has locked, are kept by attempts that do not run any more, and frees those whose time
-- is over. The caller counts what runs before: of an attempt that is settled in between, both count, and never none. Where the clock was set
-- back, a place lasts no longer than it was to last.
CREATE OR REPLACE FUNCTION {schema}.kept_places(limit_name text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE {schema}.limit_place AS p SET until = now() + (p.until - p.kept_at), kept_at = now()
    WHERE p.name = limit_name AND p.kept_at > now() + interval '1 second';
    DELETE FROM {schema}.limit_place AS p WHERE p.name = limit_name AND p.until <= now();
    RETURN (SELECT count(*) FROM {schema}.limit_place AS p WHERE p.name = limit_name);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.kept_places(text) FROM PUBLIC;

-- Counts the tokens of a limit, which the caller has locked: what its rate has brought since they were counted last, and what was given
-- back. The rule is that of store.Bucket.
CREATE OR REPLACE FUNCTION {schema}.refill_tokens(limit_name text, rate double precision, burst integer) RETURNS double precision
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    back   bigint;
    filled double precision;
BEGIN
    back := {schema}.returned_tokens(limit_name);
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

-- Takes tokens for rows that a claim starts; it has locked the limit.
CREATE OR REPLACE FUNCTION {schema}.spend_tokens(limit_name text, n bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE {schema}.limit_bucket AS b SET tokens = b.tokens - n WHERE b.name = limit_name;
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.spend_tokens(text, bigint) FROM PUBLIC;
