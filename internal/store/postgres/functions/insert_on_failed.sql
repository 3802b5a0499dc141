-- Inserts the row of on_failed for a task that ends by this statement: of that type, with what has become of the task as its payload. The
-- caller has seen that the task has no failed_task, and sets it. The row is due no earlier than until: something of the task may be at
-- work until then.
--
-- Of a task that was rolled back, outcome and error are those of its last run. A row that was checked when it came must not keep
-- its task from ending now: so it has a fence, as revived rows do, and data that could make it too large to be claimed is left out.
CREATE OR REPLACE FUNCTION {schema}.insert_on_failed(as_type text, of bigint, of_type text, ended text, verdict text, why text,
    rolled_back_for text, data jsonb, labels jsonb, region text, tenant text, traceparent text, until timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    undone text;
BEGIN
    IF ended <> 'failed' THEN
        IF ended = 'rollback_failed' THEN
            undone := why;
        END IF;
        verdict := rolled_back_for;
        why := (SELECT a.error FROM {schema}.attempt AS a WHERE a.task_id = of AND a.phase = 'run' ORDER BY a.fence DESC LIMIT 1);
    END IF;
    INSERT INTO {schema}.task (type, run_at, payload, labels, region, tenant, traceparent, created_by, failed_task, fence)
    VALUES (as_type, greatest(now(), until), jsonb_build_object('id', of, 'type', of_type, 'state', ended, 'outcome', verdict,
        'error', why, 'rollback_error', undone, 'data', CASE WHEN {schema}.weight(data) <= 66060288 THEN data END),
        insert_on_failed.labels, insert_on_failed.region, insert_on_failed.tenant, insert_on_failed.traceparent, 'leasehold', of, 1);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.insert_on_failed(text, bigint, text, text, text, text, text, jsonb, jsonb, text, text, text, timestamptz)
    FROM PUBLIC;
