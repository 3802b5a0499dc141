-- Cancels the waiting rows of a batch and stops the running ones. Once this has committed, nothing of it is claimed.
CREATE OR REPLACE FUNCTION {schema}.cancel_batch(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    b   {schema}.batch := {schema}.lock_batch(id);
BEGIN
    IF b.ended_at IS NOT NULL THEN
        RETURN (SELECT v.state FROM {schema}.batches AS v WHERE v.id = cancel_batch.id);
    ELSIF b.requested IS NOT NULL THEN
        RETURN CASE b.requested WHEN 'rollback' THEN 'rolling_back' ELSE 'cancelling' END;
    END IF;
    RETURN {schema}.start_operation(id, 'cancel', who, false, 'cancelling');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_batch(bigint, text) FROM PUBLIC;
