-- Retries the rows of a batch that failed.
CREATE OR REPLACE FUNCTION {schema}.retry_batch(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    b   {schema}.batch := {schema}.lock_batch(id);
BEGIN
    IF b.requested IS NOT NULL AND b.ended_at IS NULL THEN
        PERFORM {schema}.raise_conflict(format('a %s of batch %s is under way: wait until the batch has ended',
            b.requested, id));
    ELSIF EXISTS (SELECT FROM {schema}.operation AS o
                  WHERE o.batch_id = retry_batch.id AND o.task_id IS NULL AND o.ended_at IS NULL) THEN
        RETURN 'retrying';
    ELSIF NOT EXISTS (
        SELECT FROM {schema}.task_archive AS a
        WHERE a.batch_id = retry_batch.id AND {has_failed of=a.} AND a.state <> 'rollback_failed'
    ) THEN
        RETURN (SELECT v.state FROM {schema}.batches AS v WHERE v.id = retry_batch.id);
    END IF;
    RETURN {schema}.start_operation(id, 'retry', who, false, 'retrying');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.retry_batch(bigint, text) FROM PUBLIC;
