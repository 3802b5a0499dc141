-- Cancels waiting rows that have the fence that was seen, and returns how many; locked ones are left out. One with true in
-- its place in rolls_back waits for its rollback.
CREATE OR REPLACE FUNCTION {schema}.cancel_all_waiting(
    ids bigint[], fences bigint[], rolls_back boolean[], who text
) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    hit record;
BEGIN
    PERFORM {schema}.ensure_partition(clock_timestamp()); -- it may wait, and no row is locked yet
    SELECT coalesce(array_agg(t.id), '{}') AS ids, coalesce(array_agg(g.rolls_back), '{}') AS rolls_back INTO hit
    FROM unnest(ids, fences, rolls_back) AS g (id, fence, rolls_back)
    CROSS JOIN LATERAL (
        SELECT r.id FROM {schema}.task AS r
        WHERE r.id = g.id AND r.fence = g.fence AND r.state IN ('pending', 'retry_pending') FOR UPDATE SKIP LOCKED
    ) AS t;
    PERFORM {schema}.cancel_rows(hit.ids, hit.rolls_back, who);
    RETURN cardinality(hit.ids);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_all_waiting(bigint[], bigint[], boolean[], text) FROM PUBLIC;
