-- Starts an operation on a batch that the caller has locked, in place of any other. A batch that is cancelled or rolled
-- back accepts no rows any more, and nothing of it starts.
CREATE OR REPLACE FUNCTION {schema}.start_operation(batch bigint, with_verb text, by text, with_force boolean,
    with_answer text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE {schema}.operation AS o SET ended_at = clock_timestamp(), superseded = true
    WHERE o.batch_id = batch AND o.task_id IS NULL AND o.ended_at IS NULL;
    PERFORM {schema}.reopen_batch(batch);
    IF with_verb <> 'retry' THEN
        UPDATE {schema}.batch AS b SET
            stopping = true, sealed = true, requested = with_verb, requested_by = by,
                by_failure = by IS NOT DISTINCT FROM 'on_failure',
            failures_seen = b.failures, needs_fold = true
        WHERE b.id = batch;
    END IF;
    INSERT INTO {schema}.operation (verb, batch_id, requested_at, force, requested_by)
    VALUES (with_verb, batch, clock_timestamp(), with_force, by);
    INSERT INTO {schema}.audit (requested_by, verb, batch_id, answer) VALUES (by, with_verb, batch, with_answer);
    PERFORM pg_notify({channel_literal}, 'asked');
    RETURN with_answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.start_operation(bigint, text, text, boolean, text) FROM PUBLIC;
