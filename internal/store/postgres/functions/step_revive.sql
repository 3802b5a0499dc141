-- Revives those of finished rows that it can, each due at the time in its place, or now. Of the others, those whose key
-- another live row has are refused; the rest are missed: locked, or no longer what was seen. A transaction that inserts a
-- row with the key of one of these, and has not committed, is waited for a short time and no longer. revived are those that it has revived.
CREATE OR REPLACE FUNCTION {schema}.step_revive(
    ids bigint[], fences bigint[], dues timestamptz[], verb text, OUT changed bigint, OUT refused bigint,
    OUT missed boolean, OUT revived bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET lock_timeout = '200ms' AS
$leasehold$
DECLARE
    back bigint[];
BEGIN
    dues := ARRAY(SELECT coalesce(g.due, clock_timestamp()) FROM unnest(dues) WITH ORDINALITY AS g (due, n) ORDER BY g.n);
    BEGIN
        back := ARRAY(SELECT {schema}.revive(ids, dues, verb, fences));
    EXCEPTION
        WHEN lock_not_available THEN -- without those that have a key
            back := ARRAY(SELECT {schema}.revive(g.ids, g.dues, verb, g.fences) FROM (
                SELECT array_agg(u.id ORDER BY u.n) AS ids, array_agg(u.fence ORDER BY u.n) AS fences,
                    array_agg(u.due ORDER BY u.n) AS dues
                FROM unnest(ids, fences, dues) WITH ORDINALITY AS u (id, fence, due, n)
                WHERE EXISTS (SELECT FROM {schema}.task_archive AS a WHERE a.id = u.id AND a.key IS NULL)
            ) AS g);
    END;
    changed := cardinality(back);
    revived := back;
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
REVOKE ALL ON FUNCTION {schema}.step_revive(bigint[], bigint[], timestamptz[], text) FROM PUBLIC;
