-- Raises unless the batch accepts new rows. The lock keeps the batch from ending until the caller's transaction ends, and
-- blocks nothing else.
CREATE OR REPLACE FUNCTION {schema}.admit_to_batch(batch bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    b       {schema}.batch;
    refusal text;
BEGIN
    SELECT r.* INTO b FROM {schema}.batch AS r WHERE r.id = batch FOR KEY SHARE;
    IF b.id IS NULL THEN
        refusal := format('there is no batch %s', batch);
    ELSIF b.stopping THEN
        refusal := format('batch %s was %s: create another', batch,
            CASE b.requested WHEN 'rollback' THEN 'rolled back' ELSE 'cancelled' END);
    ELSIF b.sealed AND b.born <> pg_current_xact_id() THEN
        refusal := format('batch %s is sealed: insert its rows in the transaction that creates it, or create it with '
            'sealed = false', batch);
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = refusal;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.admit_to_batch(bigint) FROM PUBLIC;
