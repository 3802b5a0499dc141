-- Retries rows of a batch that had failed when that was requested, by id: looks at the next so many.
CREATE OR REPLACE FUNCTION {schema}.step_retry(
    INOUT o {schema}.operation, most bigint, OUT changed bigint, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    ids bigint[];
    s   record;
BEGIN
    -- The comparison of whole rows is one walk along the index task_archive_batch_failed, from the cursor on.
    ids := ARRAY(
        SELECT a.id FROM {schema}.task_archive AS a
        WHERE a.batch_id IS NOT NULL AND (a.batch_id, a.id) > (o.batch_id, coalesce(o.after_id, 0))
          AND (a.batch_id, a.id) < (o.batch_id + 1, 0) AND a.finished_at <= o.requested_at
          AND (a.state = 'failed' OR a.state = 'rolled_back' AND coalesce(a.cause, '') NOT IN ('succeeded', 'cancelled'))
        ORDER BY a.batch_id, a.id LIMIT most);
    SELECT * INTO s FROM {schema}.step_revive(ids, array_fill(clock_timestamp(), ARRAY[cardinality(ids)]), 'retry');
    changed := s.changed;
    o.refused := o.refused + s.refused;
    o.missed := o.missed OR s.missed;
    o.after_id := ids[cardinality(ids)];
    over := cardinality(ids) < most AND NOT o.missed;
    IF cardinality(ids) < most AND o.missed THEN -- another pass, for rows that were locked
        o.after_id := NULL;
        o.missed := false;
        o.refused := 0;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_retry({schema}.operation, bigint) FROM PUBLIC;
