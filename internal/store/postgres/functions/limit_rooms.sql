-- Returns how many rows a claim may take of each of these row types, for all types with the same limit (name) together. Where there is
-- no limit name is NULL, and where another claim is under way rooms is. It is called by claims of types with a limit, once each, and
-- never waits.
--
-- It locks the limits first, and counts what runs in later statements, each of which sees what has committed by then: the claim that
-- held the lock before, which the snapshot of the calling statement may not. The lock lasts until the calling claim has committed.
--
-- Of a limit that is new, rows may run that name none: they were claimed before. They are found by their type, until none is left and
-- no claim can be under way that began before the limit was there: it would have lasted longer than any statement may.
CREATE OR REPLACE FUNCTION {schema}.limit_rooms(kinds text[]) RETURNS TABLE (kind text, name text, rooms bigint)
    LANGUAGE plpgsql VOLATILE ROWS 10 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    held    record;
    running bigint;
    unnamed bigint;
    names   text[] := '{}';
    free    bigint[] := '{}';
BEGIN
    FOR held IN
        SELECT l.type, l.most, l.since, l.counts_all FROM {schema}.type_limit AS l
        WHERE l.type = ANY (ARRAY(SELECT k.name FROM {schema}.type_limit AS k WHERE k.type = ANY (kinds)))
        ORDER BY l.type
        FOR UPDATE SKIP LOCKED
    LOOP
        IF held.counts_all THEN
            SELECT count(*), count(*) FILTER (WHERE t.limited IS DISTINCT FROM held.type) INTO running, unnamed
            FROM {schema}.task AS t
            WHERE t.state IN ('running', 'rollback_running') AND (t.limited = held.type OR t.type = ANY (ARRAY(
                SELECT k.type FROM {schema}.type_limit AS k WHERE k.name = held.type)));
            IF unnamed = 0 AND held.since < now() - interval '1 minute' THEN
                UPDATE {schema}.type_limit AS l SET counts_all = false WHERE l.type = held.type;
            END IF;
        ELSE
            SELECT count(*) INTO running FROM {schema}.task AS t
            WHERE t.limited IS NOT NULL AND t.limited = held.type AND t.state IN ('running', 'rollback_running');
        END IF;
        -- Where the clock was set back, a place lasts no longer than it was to last.
        UPDATE {schema}.limit_place AS p SET until = now() + (p.until - p.kept_at), kept_at = now()
        WHERE p.name = held.type AND p.kept_at > now() + interval '1 second';
        DELETE FROM {schema}.limit_place AS p WHERE p.name = held.type AND p.until <= now();
        running := running + (SELECT count(*) FROM {schema}.limit_place AS p WHERE p.name = held.type AND NOT EXISTS (
            SELECT FROM {schema}.task AS t
            WHERE t.id = p.task_id AND t.fence = p.fence AND t.state IN ('running', 'rollback_running')));
        names := names || held.type;
        free := free || greatest(held.most - running, 0);
    END LOOP;
    RETURN QUERY
        SELECT k.kind, l.name, free[array_position(names, l.name)]
        FROM unnest(kinds) AS k (kind) LEFT JOIN {schema}.type_limit AS l ON l.type = k.kind;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.limit_rooms(text[]) FROM PUBLIC;
