-- Declares that no more rows will come. Returns 'sealed', or the state in which the batch has ended.
CREATE OR REPLACE FUNCTION {schema}.seal_batch(id bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    b {schema}.batch := {schema}.lock_batch(id);
BEGIN
    IF b.ended_at IS NOT NULL THEN
        RETURN (SELECT v.state FROM {schema}.batches AS v WHERE v.id = seal_batch.id);
    ELSIF NOT b.sealed THEN
        UPDATE {schema}.batch AS r SET sealed = true, needs_fold = true WHERE r.id = seal_batch.id;
        PERFORM pg_notify({channel_literal}, 'asked');
    END IF;
    RETURN 'sealed';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.seal_batch(bigint) FROM PUBLIC;
