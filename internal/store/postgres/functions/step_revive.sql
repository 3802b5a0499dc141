-- Revives those of finished rows that it can, each due at the time in its place. Of the others, those whose key another
-- live row has are refused; the rest are locked. A transaction that inserts a row with the key of one of these, and has
-- not committed, is waited for a short time and no longer.
CREATE OR REPLACE FUNCTION {schema}.step_revive(
    ids bigint[], dues timestamptz[], verb text, OUT changed bigint, OUT refused bigint, OUT missed boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET lock_timeout = '200ms' AS
$leasehold$
DECLARE
    back bigint[];
    keyless bigint[];
BEGIN
    BEGIN
        back := ARRAY(SELECT {schema}.revive(ids, dues, verb));
    EXCEPTION WHEN lock_not_available THEN
        keyless := ARRAY(SELECT a.id FROM {schema}.task_archive AS a WHERE a.id = ANY (ids) AND a.key IS NULL);
        back := ARRAY(SELECT {schema}.revive(
            ARRAY(SELECT g.id FROM unnest(ids, dues) WITH ORDINALITY AS g (id, due,
                n) WHERE g.id = ANY (keyless) ORDER BY g.n),
            ARRAY(SELECT g.due FROM unnest(ids, dues) WITH ORDINALITY AS g (id, due,
                n) WHERE g.id = ANY (keyless) ORDER BY g.n),
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
REVOKE ALL ON FUNCTION {schema}.step_revive(bigint[], timestamptz[], text) FROM PUBLIC;
