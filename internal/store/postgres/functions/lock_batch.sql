-- Locks a batch and returns it.
CREATE OR REPLACE FUNCTION {schema}.lock_batch(batch bigint) RETURNS {schema}.batch
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    b {schema}.batch;
BEGIN
    SELECT r.* INTO b FROM {schema}.batch AS r WHERE r.id = batch FOR NO KEY UPDATE;
    IF b.id IS NULL THEN
        RAISE EXCEPTION 'there is no batch %', batch USING ERRCODE = 'no_data_found';
    END IF;
    RETURN b;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.lock_batch(bigint) FROM PUBLIC;

-- Starts a new round of a batch that has ended. The caller has locked it.
CREATE OR REPLACE FUNCTION {schema}.reopen_batch(batch bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE {schema}.batch AS b SET
        ended_at = NULL, round = b.round + 1, requested = NULL, requested_by = NULL, by_failure = false, stopping = false,
            needs_fold = true,
        failures_seen = b.failures + coalesce((
            SELECT sum(d.failures) FROM {schema}.batch_delta AS d WHERE d.batch_id = b.id), 0)
    WHERE b.id = batch AND b.ended_at IS NOT NULL;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.reopen_batch(bigint) FROM PUBLIC;
